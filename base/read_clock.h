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

// Returns the processor's counter: the TSC, or the virtual counter of an ARM processor. Its rate is constant
// and not known here.
inline uint64_t ReadTicks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
#error "this processor's counter is not known"
#endif
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_READ_CLOCK_H_
