// ServerMetrics collects and formats an aggregator's metrics. docs/formats/metrics.md defines the list.
#ifndef LOCKSTEP_AGGREGATOR_SERVER_METRICS_H_
#define LOCKSTEP_AGGREGATOR_SERVER_METRICS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "aggregator/ingest/hub.h"
#include "aggregator/ingest/rpc_counts.h"
#include "aggregator/reports/analyst.h"
#include "aggregator/retention.h"
#include "base/log/audit_log.h"
#include "base/metrics/page.h"
#include "base/mutex.h"
#include "base/rpc/connection_gate.h"
#include "base/time.h"

namespace lockstep::aggregator {

// Thread-safe.
class ServerMetrics {
 public:
  // Counts a report of that job, or the failure to make it. `now` is the time since 1970.
  void NoteReport(const std::string& job, const absl::StatusOr<ReportFacts>& report, Nanos took, Nanos now);
  void NoteStore(const StoreUse& use);
  void NoteRetired(const Retired& retired);

  void AddTo(const aggregator::Hub& hub, const aggregator::RpcCounts& calls, const rpc::GateCounts& gate,
             const AuditCounts& audit, metrics::Page& page) const;
  StoreUse store() const;

 private:
  struct Job {
    std::string name;
    ReportFacts report;
    Nanos reported_at;
  };
  struct RetiredCount {
    uint64_t captures = 0;
    uint64_t bytes = 0;
  };
  void AddReports(metrics::Page& page) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddStore(metrics::Page& page) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddJobs(metrics::Page& page) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  uint64_t reports_written_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t reports_failed_ ABSL_GUARDED_BY(mutex_) = 0;
  metrics::DurationHistogram report_took_ ABSL_GUARDED_BY(mutex_);
  StoreUse store_ ABSL_GUARDED_BY(mutex_);
  // By limit.
  std::map<std::string, RetiredCount> retired_ ABSL_GUARDED_BY(mutex_) = {
      {"age", {}}, {"bytes", {}}, {"captures", {}}, {"user_bytes", {}}};
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);  // the newest report last; the oldest is dropped
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_SERVER_METRICS_H_
