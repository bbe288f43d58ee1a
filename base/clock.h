// The host's clocks. A caller passes a Clock in, so that a test can set the time.
#ifndef LOCKSTEP_BASE_CLOCK_H_
#define LOCKSTEP_BASE_CLOCK_H_

#include <ctime>

#include "base/time.h"

namespace lockstep {

// SystemClock and the tests' clocks implement it. Any thread may call it.
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

#endif  // LOCKSTEP_BASE_CLOCK_H_
