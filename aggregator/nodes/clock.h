// The aggregator's clocks, passed as objects so that tests can set them.
#ifndef LOCKSTEP_AGGREGATOR_NODES_CLOCK_H_
#define LOCKSTEP_AGGREGATOR_NODES_CLOCK_H_

#include <ctime>

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
  JobTime Now() const override {
    timespec t = {};
    ::clock_gettime(CLOCK_REALTIME, &t);
    return JobTime(static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec);
  }
};

// The monotonic clock, for deadlines.
inline MonoTime MonoNow() {
  timespec t = {};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return MonoTime(static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec);
}

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NODES_CLOCK_H_
