// What an aggregator shows at its metrics port. Home of the list: docs/formats/metrics.md.
#ifndef LOCKSTEP_AGGREGATOR_SERVER_METRICS_H_
#define LOCKSTEP_AGGREGATOR_SERVER_METRICS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "aggregator/ingest/hub.h"
#include "aggregator/ingest/rpc_counts.h"
#include "aggregator/retention.h"
#include "base/log/audit_log.h"
#include "base/metrics/page.h"
#include "base/time.h"
#include "report/model.h"

namespace lockstep {

// Any thread.
class ServerMetrics {
 public:
  // A report was made of a capture; nullopt: it could not be. `now`: since 1970.
  void NoteReport(const std::optional<report::Report>& report, Nanos took, Nanos now);
  void NoteStore(const StoreUse& use);
  void NoteRetired(const Retired& retired);

  void AddTo(const ingest::Hub& hub, const ingest::RpcCounts& calls, const AuditCounts& audit,
             metrics::Page& page) const;
  StoreUse store() const;

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
  struct RetiredCount {
    uint64_t captures = 0;
    uint64_t bytes = 0;
  };
  void AddReports(metrics::Page& page) const;
  void AddStore(metrics::Page& page) const;
  void AddJobs(metrics::Page& page) const;

  mutable std::mutex mutex_;
  uint64_t reports_written_ = 0;
  uint64_t reports_failed_ = 0;
  metrics::DurationHistogram report_took_;
  StoreUse store_;
  std::map<std::string, RetiredCount> retired_{{"age", {}}, {"bytes", {}}, {"captures", {}}};  // by limit
  std::deque<Job> jobs_;  // the newest report last
};

}  // namespace lockstep

#endif  // LOCKSTEP_AGGREGATOR_SERVER_METRICS_H_
