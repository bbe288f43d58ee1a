// The host's clocks, handed in so that tests set the time.
#ifndef LOCKSTEP_COMMON_BASE_CLOCK_H_
#define LOCKSTEP_COMMON_BASE_CLOCK_H_

#include <ctime>

#include "base/time.h"

namespace lockstep {

// Implemented by: SystemClock, and the tests' own. Any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonoTime Monotonic() const = 0;
  virtual HostTime Realtime() const = 0;
};

class SystemClock final : public Clock {
 public:
  MonoTime Monotonic() const override { return MonoTime(Read(CLOCK_MONOTONIC)); }
  HostTime Realtime() const override { return HostTime(Read(CLOCK_REALTIME)); }

 private:
  static int64_t Read(clockid_t id) {
    timespec t{};
    clock_gettime(id, &t);
    return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
  }
};

}  // namespace lockstep

#endif  // LOCKSTEP_COMMON_BASE_CLOCK_H_
