// ClockSync exchanges time stamps with one aggregator. It sends a burst on registering and on arming. During
// a capture it makes 20 exchanges a second, otherwise one every 10 s.
#ifndef LOCKSTEP_DAEMON_UPLINK_CLOCK_SYNC_H_
#define LOCKSTEP_DAEMON_UPLINK_CLOCK_SYNC_H_

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "daemon/uplink/offset_estimator.h"
#include "lockstep/v1/ingest.pb.h"

namespace lockstep::daemon {

enum class ClockSyncRate : uint8_t { kIdle, kCapture };

// Any thread.
class ClockSync {
 public:
  // Asks the aggregator for its two time stamps (t2, t3). Returns nothing if the call failed. Called on the
  // clock thread.
  struct Answer {
    JobTime t2;
    JobTime t3;
  };
  using Query = std::function<std::optional<Answer>(HostTime t1)>;

  // `ready` is called on the clock thread when there are samples to send.
  ClockSync(const Clock& clock, std::function<void()> ready) : clock_(clock), ready_(std::move(ready)) {}
  ~ClockSync() { Stop(); }
  ClockSync(const ClockSync&) = delete;
  ClockSync& operator=(const ClockSync&) = delete;

  // Begins with a burst. Call Stop before another Start; the estimate is kept.
  void Start(Query query);
  void Stop();
  // A change to kCapture starts a burst.
  void SetRate(ClockSyncRate rate);

  OffsetEstimate Estimate() const;
  // Returns the samples since the last call, oldest first.
  std::vector<v1::ClockSample> TakeSamples();

 private:
  static constexpr int kBurst = 20;
  static constexpr Nanos kCapturePause = Nanos::Millis(50);
  static constexpr Nanos kIdlePause = Nanos::Seconds(10);
  static constexpr int kReadingTries = 5;
  static constexpr Nanos kReadingGap = Nanos::Micros(50);
  static constexpr size_t kMostSamples = 4096;

  void Run(const Query& query);
  void Exchange(const Query& query);
  bool ReadBothClocks(HostTime& realtime, MonoTime& monotonic) const;

  const Clock& clock_;
  const std::function<void()> ready_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  ClockSyncRate rate_ ABSL_GUARDED_BY(mutex_) = ClockSyncRate::kIdle;
  int burst_left_ ABSL_GUARDED_BY(mutex_) = 0;
  OffsetEstimator estimator_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ClockSample> samples_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // thread: owner
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_UPLINK_CLOCK_SYNC_H_
