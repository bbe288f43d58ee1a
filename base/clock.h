// The host's clocks. A caller passes a Clock in, so that a test can set the time.
#ifndef LOCKSTEP_BASE_CLOCK_H_
#define LOCKSTEP_BASE_CLOCK_H_

#include "base/read_clock.h"
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
  MonoTime Monotonic() const override { return ReadMonotonic(); }
  HostTime Realtime() const override { return ReadRealtime(); }
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_CLOCK_H_
