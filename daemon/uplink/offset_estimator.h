// OffsetEstimator estimates the host clock's offset to the aggregator's, precisely enough to start ranks
// together. No system calls.
//
// It is a minimum-delay filter: of the recent exchanges it uses the one with the smallest uncertainty, which
// is half the round trip plus possible drift since then. The aggregator aligns captures more precisely
// (capture/align); it receives every sample.
#ifndef LOCKSTEP_DAEMON_UPLINK_OFFSET_ESTIMATOR_H_
#define LOCKSTEP_DAEMON_UPLINK_OFFSET_ESTIMATOR_H_

#include <cstddef>
#include <deque>

#include "base/time.h"

namespace lockstep::daemon {

// One exchange, in CLOCK_REALTIME. The host sent it at t1, the aggregator received it at t2 and answered at
// t3, and the host received the answer at t4. `monotonic` is the host's CLOCK_MONOTONIC at t4.
struct ClockExchange {
  HostTime t1;
  JobTime t2;
  JobTime t3;
  HostTime t4;
  MonoTime monotonic;
};

struct OffsetEstimate {
  bool known = false;
  Nanos offset;  // host - aggregator
  // Never smaller than the error, as long as neither clock drifts faster than kMaxDrift.
  Nanos bound = Nanos::Max();
  HostTime ToHost(JobTime t) const { return HostTime(t.ns()) + offset; }
  JobTime ToJob(HostTime t) const { return JobTime((t - offset).ns()); }
};

// One thread at a time.
class OffsetEstimator {
 public:
  // 200 ppm: twice the relative drift of two bad quartz clocks.
  static constexpr double kMaxDrift = 200e-6;

  // Returns false if the exchange was not used because it contradicts itself: a clock stepped during it, or
  // the answer is invalid.
  bool Add(const ClockExchange& exchange);
  // `now` is the host's CLOCK_MONOTONIC.
  OffsetEstimate At(MonoTime now) const;
  // Number of detected clock steps. Each one discards the earlier samples.
  int steps() const { return steps_; }

 private:
  static constexpr size_t kMostSamples = 64;

  struct Sample {
    Nanos offset;
    Nanos uncertainty;  // half the round trip
    MonoTime at;
    Nanos realtime_ahead;  // host's REALTIME - MONOTONIC; jumps when REALTIME is set
  };
  static Nanos Bound(const Sample& sample, MonoTime now);
  bool Contradicts(const Sample& sample) const;

  std::deque<Sample> samples_;
  int steps_ = 0;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_UPLINK_OFFSET_ESTIMATOR_H_
