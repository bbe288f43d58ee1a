// Keeps the aggregator's captures within their limits: at the start, after each capture, and from time to
// time, since captures grow old without anything happening.
#ifndef LOCKSTEP_AGGREGATOR_HOUSEKEEPER_H_
#define LOCKSTEP_AGGREGATOR_HOUSEKEEPER_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "aggregator/ingest/capture_use.h"
#include "aggregator/nodes/clock.h"
#include "aggregator/retention.h"
#include "aggregator/server_metrics.h"
#include "base/log/audit_log.h"
#include "base/log/log.h"

namespace lockstep {

struct HousekeeperOptions {
  std::string folder;  // of captures
  Retention retention;
  Nanos period = Nanos::Seconds(3600);
  std::function<MonoTime()> mono = &ingest::MonoNow;
  LogSink log = &LogNothing;
};

// Any thread.
class Housekeeper {
 public:
  // All references outlive it, and what `in_use` stands on.
  Housekeeper(HousekeeperOptions options, const ingest::Clock& clock, ingest::CaptureUse& use,
              std::function<bool(const std::string&)> in_use, AuditLog& audit, ServerMetrics& metrics);
  ~Housekeeper();
  Housekeeper(const Housekeeper&) = delete;
  Housekeeper& operator=(const Housekeeper&) = delete;

  // A thread that tidies now and once per period.
  void Start();
  void Tidy();
  void Stop();

 private:
  void Run();
  void Tell(const Retired& retired);

  const HousekeeperOptions options_;
  const ingest::Clock& clock_;
  ingest::CaptureUse& use_;
  const std::function<bool(const std::string&)> in_use_;
  AuditLog& audit_;
  ServerMetrics& metrics_;
  std::mutex tidying_;
  SteadyTime steady_;  // by `tidying_`
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_AGGREGATOR_HOUSEKEEPER_H_
