// Exchanges clocks with one aggregator: a burst when it registers and when it arms, 20 a second while a
// capture is on, one every 10 s else.
#ifndef LOCKSTEP_DAEMON_CLOCK_SYNC_H_
#define LOCKSTEP_DAEMON_CLOCK_SYNC_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "daemon/uplink/offset_estimator.h"
#include "lockstep/v1/ingest.pb.h"

namespace lockstep::daemon {

enum class ClockPace : uint8_t { kIdle, kCapture };

// Any thread.
class ClockSync {
 public:
  // Asks the aggregator for its two stamps (t2, t3); nothing when the call failed. Called on the clock
  // thread.
  struct Answer {
    JobTime t2;
    JobTime t3;
  };
  using Ask = std::function<std::optional<Answer>(HostTime t1)>;

  // `ready` is called on the clock thread when there are samples to send.
  ClockSync(const Clock& clock, std::function<void()> ready) : clock_(clock), ready_(std::move(ready)) {}
  ~ClockSync() { Stop(); }
  ClockSync(const ClockSync&) = delete;
  ClockSync& operator=(const ClockSync&) = delete;

  // Begins with a burst. Stop before Start anew; what is known stays.
  void Start(Ask ask);
  void Stop();
  // Going to kCapture means a burst.
  void SetPace(ClockPace pace);

  OffsetEstimate Estimate() const;
  // Those not taken yet, oldest first.
  std::vector<v1::ClockSample> TakeSamples();

 private:
  static constexpr int kBurst = 20;
  static constexpr Nanos kCapturePause = Nanos::Millis(50);
  static constexpr Nanos kIdlePause = Nanos::Seconds(10);
  static constexpr int kReadingTries = 5;
  static constexpr Nanos kReadingGap = Nanos::Micros(50);
  static constexpr size_t kMostSamples = 4096;

  void Run(const Ask& ask);
  void Exchange(const Ask& ask);
  bool ReadTogether(HostTime& realtime, MonoTime& monotonic) const;

  const Clock& clock_;
  const std::function<void()> ready_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  ClockPace pace_ = ClockPace::kIdle;
  int burst_left_ = 0;
  OffsetEstimator estimator_;
  std::vector<v1::ClockSample> samples_;
  std::thread thread_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CLOCK_SYNC_H_
