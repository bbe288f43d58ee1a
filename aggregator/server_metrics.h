// What an aggregator shows at its metrics port. Home of the list: docs/formats/metrics.md.
#ifndef LOCKSTEP_AGGREGATOR_SERVER_METRICS_H_
#define LOCKSTEP_AGGREGATOR_SERVER_METRICS_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "aggregator/ingest/hub.h"
#include "aggregator/ingest/rpc_counts.h"
#include "aggregator/report/model.h"
#include "aggregator/retention.h"
#include "common/base/time.h"
#include "common/metrics/page.h"

namespace lockstep {

// Any thread.
class ServerMetrics {
 public:
  // Whether the page names jobs and what their last reports said: only where not every user of the machine may read it.

  // A report was made of a capture; nullopt: it could not be. `now`: since 1970.
  void NoteReport(const std::optional<report::Report>& report, Nanos took, Nanos now);
  void NoteStore(const StoreUse& use);
  void NoteRetired(const Retired& retired);

  void AddTo(const ingest::Hub& hub, const ingest::RpcCounts& calls, metrics::Page& page) const;

 private:
  // Whoever starts jobs names them, so their number has to be bounded: the oldest report's job goes.
  static constexpr size_t kMostJobs = 32;
  static constexpr size_t kLongestJob = 128;

  struct Job {
    std::string name;
    report::SlowdownRow slowdown;
    uint64_t stragglers = 0;
    Nanos reported_at;
  };
  void AddReports(metrics::Page& page) const;
  void AddStore(metrics::Page& page) const;
  void AddJobs(metrics::Page& page) const;

  mutable std::mutex mutex_;
  uint64_t reports_written_ = 0;
  uint64_t reports_failed_ = 0;
  metrics::DurationHistogram report_took_;
  StoreUse store_;
  uint64_t retired_captures_ = 0;
  uint64_t retired_bytes_ = 0;
  std::deque<Job> jobs_;  // the newest report last
};

}  // namespace lockstep

#endif  // LOCKSTEP_AGGREGATOR_SERVER_METRICS_H_
