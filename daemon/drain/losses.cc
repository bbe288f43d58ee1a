#include "daemon/drain/losses.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

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
      return {
          "cupti",
          "CUPTI was lost in the window, to another profiler or with its GPU; the number of lost records is "
          "not known"};
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

void AddLosses(const ring::LossCounts& counts, Nanos recording, const HostInterval& window,
               v1::CaptureEnd& end) {
  const auto most = static_cast<uint64_t>(std::max<int64_t>(recording.ns(), 1));
  for (size_t r = 0; r < ring::kLossReasons; ++r) {
    const auto reason = static_cast<ring::LossReason>(r);
    for (size_t k = 0; k < ring::kRecordKinds; ++k) {
      // A string that was too large is truncated and kept.
      const auto kind = static_cast<columns::Kind>(k);
      if (reason == ring::LossReason::kTooLarge && kind == columns::Kind::kString) continue;
      const Words words = Explain(reason);
      const uint64_t stated = counts.records[r][k];
      const std::string reason_text = stated <= most
                                          ? words.reason
                                          : absl::StrCat(words.reason, "; the process states ", stated,
                                                         ", more than it could have written");
      AddLoss(words.stage, kind, std::min(stated, most), reason_text, window, end);
    }
  }
}

}  // namespace lockstep::daemon
