// The aggregator's clocks, passed as objects so that tests can set them.
#ifndef LOCKSTEP_AGGREGATOR_NODES_CLOCK_H_
#define LOCKSTEP_AGGREGATOR_NODES_CLOCK_H_

#include <ctime>

#include "base/read_clock.h"
#include "base/time.h"

namespace lockstep::aggregator {

// Implemented by: SystemJobClock, and clocks of tests. Any thread.
class JobClock {
 public:
  virtual ~JobClock() = default;
  // Returns the aggregator's CLOCK_REALTIME, which is the job's clock while a capture runs.
  virtual JobTime Now() const = 0;
};

class SystemJobClock final : public JobClock {
 public:
  JobTime Now() const override { return JobTime(ReadClockNs(CLOCK_REALTIME)); }
};

// The monotonic clock, for deadlines.
inline MonoTime MonoNow() { return ReadMonotonic(); }

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NODES_CLOCK_H_
