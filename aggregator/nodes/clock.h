// The aggregator's clocks, handed in so that tests can set them.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_CLOCK_H_
#define LOCKSTEP_AGGREGATOR_INGEST_CLOCK_H_

#include <ctime>

#include "base/time.h"

namespace lockstep::ingest {

// Implemented by: SystemClock, and the tests' own. Any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  // The aggregator's CLOCK_REALTIME: the job's clock while a capture runs.
  virtual JobTime Now() const = 0;
};

class SystemClock final : public Clock {
 public:
  JobTime Now() const override {
    timespec t = {};
    ::clock_gettime(CLOCK_REALTIME, &t);
    return JobTime(static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec);
  }
};

// For deadlines.
inline MonoTime MonoNow() {
  timespec t = {};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return MonoTime(static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec);
}

}  // namespace lockstep::ingest

#endif  // LOCKSTEP_AGGREGATOR_INGEST_CLOCK_H_
