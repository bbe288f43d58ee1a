// Housekeeper keeps the stored captures within their limits. It runs at the start, after each capture, and
// periodically, because captures also expire by age.
#ifndef LOCKSTEP_AGGREGATOR_HOUSEKEEPER_H_
#define LOCKSTEP_AGGREGATOR_HOUSEKEEPER_H_

#include <functional>
#include <set>
#include <string>
#include <thread>

#include "aggregator/ingest/capture_use.h"
#include "aggregator/nodes/clock.h"
#include "aggregator/retention.h"
#include "aggregator/server_metrics.h"
#include "base/log/audit_log.h"
#include "base/log/log.h"
#include "base/mutex.h"

namespace lockstep::aggregator {

struct HousekeeperOptions {
  std::string folder;  // holds one folder per capture
  Retention retention;
  Nanos period = Nanos::Seconds(3600);
  std::function<MonoTime()> mono = &aggregator::MonoNow;
  LogSink log = &LogNothing;
  // Returns captures to remove regardless of the limits.
  std::function<std::set<std::string>()> surplus = [] { return std::set<std::string>(); };
};

// Thread-safe.
class Housekeeper {
 public:
  // All references, and the objects that `in_use` refers to, outlive the housekeeper.
  Housekeeper(HousekeeperOptions options, const aggregator::JobClock& clock, aggregator::CaptureUse& use,
              std::function<bool(const std::string&)> in_use, AuditLog& audit, ServerMetrics& metrics);
  ~Housekeeper();
  Housekeeper(const Housekeeper&) = delete;
  Housekeeper& operator=(const Housekeeper&) = delete;

  // Starts a thread that tidies now and once per period.
  void Start();
  void Tidy();
  void Stop();

 private:
  void Run();
  void LogRetired(const Retired& retired);

  const HousekeeperOptions options_;
  const aggregator::JobClock& clock_;
  aggregator::CaptureUse& use_;
  const std::function<bool(const std::string&)> in_use_;
  AuditLog& audit_;
  ServerMetrics& metrics_;
  Mutex tidying_;
  ClockStepDetector step_detector_ ABSL_GUARDED_BY(tidying_);
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // thread: owner
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_HOUSEKEEPER_H_
