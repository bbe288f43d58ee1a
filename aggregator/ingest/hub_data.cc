// What daemons send of captures: stored once each, counted whatever becomes of it.
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "aggregator/ingest/hub.h"

namespace lockstep::ingest {

void Hub::Count(const std::function<void(HubStats&)>& add) {
  std::lock_guard<std::mutex> lock(mutex_);
  add(counts_);
}

std::optional<uint64_t> Hub::HandleData(const DaemonKey& key, const v1::FromDaemon& message) {
  if (message.has_batch()) {
    const v1::Batch& batch = message.batch();
    return Sequenced(key, batch.sequence(), batch.sequence(), batch.capture(), [&](CaptureSession& session) {
      if (absl::Status s = session.OnBatch(key, batch); !s.ok()) {
        return options_.log(LogLevel::kError, "batch_not_stored",
                            {{"capture", batch.capture()}, {"reason", s.message()}});
      }
      Count([&](HubStats& counts) {
        ++counts.batches;
        counts.records += batch.rows();
        counts.record_bytes += batch.blocks().size();
      });
    });
  }
  if (message.has_trace_file()) {
    const v1::TraceFile& piece = message.trace_file();
    return Sequenced(key, piece.sequence(), piece.sequence(), piece.capture(), [&](CaptureSession& session) {
      if (absl::Status s = session.OnTraceFile(key, piece); !s.ok()) {
        return options_.log(LogLevel::kError, "trace_file_not_stored",
                            {{"capture", piece.capture()}, {"reason", s.message()}});
      }
      Count([&](HubStats& counts) {
        ++counts.trace_pieces;
        counts.trace_bytes += piece.data().size();
      });
    });
  }
  if (message.has_gap()) {
    const v1::Gap& gap = message.gap();
    return Sequenced(key, gap.first_sequence(), gap.last_sequence(), gap.capture(),
                     [&](CaptureSession& session) {
                       session.OnGap(key, gap);
                       Count([](HubStats& counts) { ++counts.gaps; });
                     });
  }
  if (message.has_end()) {
    const v1::CaptureEnd& end = message.end();
    return Sequenced(key, end.sequence(), end.sequence(), end.capture(), [&](CaptureSession& session) {
      session.OnEnd(key, end);
      Count([](HubStats& counts) { ++counts.ends; });
    });
  }
  return std::nullopt;
}

std::optional<uint64_t> Hub::Sequenced(const DaemonKey& key, uint64_t first, uint64_t last,
                                       const std::string& capture,
                                       const std::function<void(CaptureSession&)>& store) {
  std::shared_ptr<std::mutex> order;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    order = daemons_[key].order;
  }
  std::lock_guard<std::mutex> in_order(*order);
  uint64_t acked = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    acked = daemons_[key].acked;
  }
  // Sent again after a reconnect, stored before it. A gap that starts among stored batches still tells of
  // later ones.
  if (last <= acked || last < first) {
    Count([](HubStats& counts) { ++counts.duplicates; });
    return acked;
  }
  if (const auto session = SessionOf(capture)) {
    if (first > acked + 1 && acked > 0) {
      session->OnHole(key, first - acked - 1);
      Count([&](HubStats& counts) { counts.missing += first - acked - 1; });
    }
    store(*session);
  } else {
    std::lock_guard<std::mutex> lock(mutex_);
    if (counts_.discarded++ == 0)
      options_.log(LogLevel::kWarning, "batches_discarded",
                   {{"capture", capture}, {"text", "it does not run here"}});
  }
  std::lock_guard<std::mutex> lock(mutex_);
  daemons_[key].acked = last;
  return last;
}

}  // namespace lockstep::ingest
