// The host's clock against the aggregator's, as good as is needed to start ranks together. Pure.
//
// Minimum-delay filter: of the recent exchanges the one whose round trip leaves least doubt, the doubt
// growing with its age. The finer alignment of a capture is the aggregator's (aggregator/align); it gets
// every sample.
#ifndef LOCKSTEP_DAEMON_OFFSET_ESTIMATOR_H_
#define LOCKSTEP_DAEMON_OFFSET_ESTIMATOR_H_

#include <cstddef>
#include <deque>

#include "base/time.h"

namespace lockstep::daemon {

// One exchange: sent by the host at t1, received and answered by the aggregator at t2 and t3, received by the
// host at t4; all CLOCK_REALTIME. `monotonic` is the host's at t4.
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
  Nanos bound =
      Nanos::Max();  // never smaller than the error, while neither clock runs off faster than kWorstDrift
  HostTime ToHost(JobTime t) const { return HostTime(t.ns()) + offset; }
  JobTime ToJob(HostTime t) const { return JobTime((t - offset).ns()); }
};

// One thread.
class OffsetEstimator {
 public:
  // 200 ppm: twice what two bad quartz clocks do against each other.
  static constexpr double kWorstDrift = 200e-6;

  // False: the exchange contradicts itself (a clock stepped inside it, or the answer is nonsense) and was not
  // used.
  bool Add(const ClockExchange& exchange);
  // `now` is the host's CLOCK_MONOTONIC.
  OffsetEstimate At(MonoTime now) const;
  // How often a clock was seen to step; what was known before is then forgotten.
  int steps() const { return steps_; }

 private:
  static constexpr size_t kMostSamples = 64;

  struct Sample {
    Nanos offset;
    Nanos doubt;  // half the round trip
    MonoTime at;
    Nanos realtime_ahead;  // the host's REALTIME - MONOTONIC: jumps when REALTIME is set
  };
  static Nanos Bound(const Sample& sample, MonoTime now);
  bool Contradicts(const Sample& sample) const;

  std::deque<Sample> samples_;
  int steps_ = 0;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_OFFSET_ESTIMATOR_H_
