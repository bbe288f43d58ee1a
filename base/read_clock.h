// Reads the system's clocks.
#ifndef LOCKSTEP_BASE_READ_CLOCK_H_
#define LOCKSTEP_BASE_READ_CLOCK_H_

#include <time.h>

#include <cstdint>

#include "base/time.h"

namespace lockstep {

// Returns nanoseconds of the clock, such as CLOCK_REALTIME or CLOCK_THREAD_CPUTIME_ID.
inline int64_t ReadClockNs(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

inline MonoTime ReadMonotonic() { return MonoTime(ReadClockNs(CLOCK_MONOTONIC)); }
inline HostTime ReadRealtime() { return HostTime(ReadClockNs(CLOCK_REALTIME)); }

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_READ_CLOCK_H_
