// SlowdownCaptures captures jobs in which a rank has become slower, without a request of a user, within the
// limit that the operator has set (--slowdown-captures).
#ifndef LOCKSTEP_AGGREGATOR_LIVE_SLOWDOWN_CAPTURES_H_
#define LOCKSTEP_AGGREGATOR_LIVE_SLOWDOWN_CAPTURES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "aggregator/captures/captures.h"
#include "aggregator/live/slowdowns.h"
#include "base/log/audit_log.h"
#include "base/log/log.h"
#include "base/mutex.h"
#include "base/time.h"

namespace lockstep::aggregator {

struct SlowdownCapturesOptions {
  size_t per_hour = 0;  // of all jobs together; 0: none
  uint32_t steps = 5;   // length of a capture
  std::function<MonoTime()> now = &MonoNow;
  LogSink log = &LogNothing;
};

// Thread-safe. It has one thread, which makes one capture at a time.
class SlowdownCaptures {
 public:
  // Runs a capture until its report is finished, as Captures::Trace.
  using Trace =
      std::function<v1::TraceFinished(const v1::TraceRequest&, const Caller&, const CaptureSession::Emit&)>;
  // Receives the capture of a slowdown, or the reason why there is none.
  using Done = std::function<void(uint64_t slowdown, const std::string& capture, const std::string& problem)>;

  // `audit` outlives this.
  SlowdownCaptures(SlowdownCapturesOptions options, Trace trace, Done done, AuditLog& audit);
  ~SlowdownCaptures();
  SlowdownCaptures(const SlowdownCaptures&) = delete;
  SlowdownCaptures& operator=(const SlowdownCaptures&) = delete;

  // Starts the thread, if captures are allowed.
  void Start();
  // Asks for a capture, and returns at once. A job has at most one in kPause; later slowdowns in that time
  // get the same. Without a capture, `done` is called with the reason, unless captures are not allowed at all
  // or the aggregator ends.
  void Add(const NewSlowdown& slowdown);
  // Returns after the capture that runs, which the caller ends.
  void Shutdown();

 private:
  // The ranks of one incident are noticed one after the other, and one capture has all of them.
  static constexpr Nanos kPause = Nanos::Seconds(600);
  static constexpr Nanos kShortest = Nanos::Seconds(1);
  static constexpr Nanos kLongest = Nanos::Seconds(10);
  // Without the GPU's activities, this long is read from the operation logs.
  static constexpr Nanos kPast = Nanos::Seconds(30);
  static constexpr size_t kMostWaiting = 64;

  struct Last {
    MonoTime at;
    std::string capture;  // empty: it failed
  };

  void Run();
  // Returns why the slowdown gets no capture of its own, or "" if it does and the capture is counted.
  // `*capture` is that of an earlier slowdown, if that is the reason.
  std::string Refusal(const NewSlowdown& slowdown, std::string* capture)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Captures the present, or else the past.
  v1::TraceFinished Capture(const NewSlowdown& slowdown);
  v1::TraceFinished Audited(const NewSlowdown& slowdown, const v1::TraceRequest& request);
  bool stopping();

  const SlowdownCapturesOptions options_;
  const Trace trace_;
  const Done done_;
  AuditLog& audit_;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<NewSlowdown> waiting_ ABSL_GUARDED_BY(mutex_);
  std::deque<MonoTime> begun_ ABSL_GUARDED_BY(mutex_);  // within the last hour
  std::map<JobKey, Last> last_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // thread: owner
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_LIVE_SLOWDOWN_CAPTURES_H_
