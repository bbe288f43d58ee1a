#include "daemon/drain/losses.h"

namespace lockstep::daemon {
namespace {

struct Words {
  const char* stage;
  const char* reason;
};

Words Explain(ring::LossReason reason) {
  switch (reason) {
    case ring::LossReason::kRingFull:
      return {"ring", "the ring was full: the daemon did not drain it fast enough"};
    case ring::LossReason::kNoRing:
      return {"ring", "all rings of the process were taken by other threads"};
    case ring::LossReason::kCuptiDropped:
      return {"cupti", "CUPTI dropped them: its buffers were full"};
    case ring::LossReason::kBadStamp:
      return {"client", "their stamps were missing or ended before they started"};
    case ring::LossReason::kTooLarge:
      return {"client", "they were larger than the largest record"};
    case ring::LossReason::kUnknownKind:
      return {"client", "this client does not know their kind"};
    case ring::LossReason::kNoPlace:
      return {"client", "too many of them were open at the same time"};
    case ring::LossReason::kContested:
      return {"cupti",
              "another profiler took over CUPTI in the window; the number of lost records is not known"};
  }
  return {"client", "unknown reason"};
}

}  // namespace

void AddLoss(const std::string& stage, columns::Kind kind, uint64_t records, const std::string& reason,
             const HostInterval& window, v1::CaptureEnd& end) {
  if (records == 0) return;
  v1::Loss* loss = end.add_losses();
  loss->set_stage(stage);
  loss->set_kind(static_cast<uint32_t>(kind));
  loss->set_records(records);
  loss->set_reason(reason);
  loss->set_from_ns(window.start.ns());
  loss->set_to_ns(window.end.ns());
}

void AddLosses(const ring::LossCounts& counts, const HostInterval& window, v1::CaptureEnd& end) {
  for (size_t r = 0; r < ring::kLossReasons; ++r) {
    const auto reason = static_cast<ring::LossReason>(r);
    for (size_t k = 0; k < ring::kRecordKinds; ++k) {
      // A string that was too large is truncated and kept.
      const auto kind = static_cast<columns::Kind>(k);
      if (reason == ring::LossReason::kTooLarge && kind == columns::Kind::kString) continue;
      const Words words = Explain(reason);
      AddLoss(words.stage, kind, counts.records[r][k], words.reason, window, end);
    }
  }
}

}  // namespace lockstep::daemon
