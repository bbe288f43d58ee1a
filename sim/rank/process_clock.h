// The clocks of the simulated host.
//
// lockstep-sim-rank defines clock_gettime itself, so that every library in the process, including the tool,
// reads the simulated CLOCK_REALTIME. That clock is the machine's plus the configured offset and drift, and
// the time stamps use it. During one of the rank's own calls (an NVTX range, an NCCL event) the calling
// thread reads the call's virtual time, as on a host that works in virtual time. All other clocks are the
// machine's.
#ifndef LOCKSTEP_SIM_RANK_PROCESS_CLOCK_H_
#define LOCKSTEP_SIM_RANK_PROCESS_CLOCK_H_

#include <cstdint>

#include "base/time.h"

namespace lockstep::sim {

// The simulated host's CLOCK_REALTIME minus the machine's: `offset` at `reference`, growing with the drift.
// At `step_at`, the clock is set by `step`.
struct ClockError {
  Nanos offset;
  int64_t drift_ppb = 0;
  MonoTime reference;
  Nanos step;
  MonoTime step_at = MonoTime::Max();
  Nanos At(MonoTime t) const {
    return offset + (t >= step_at ? step : Nanos()) +
           Nanos(
               static_cast<int64_t>(static_cast<__int128>((t - reference).ns()) * drift_ppb / 1'000'000'000));
  }
};

// Return the machine's clocks, also if a library that changes them is preloaded.
MonoTime MachineMonotonic();
HostTime MachineRealtime();

// Sets the error of this process's CLOCK_REALTIME. It must be called before the first thread starts.
void SetProcessClock(const ClockError& error);

// While an object lives, the calling thread's CLOCK_REALTIME is `at`. Objects must not be nested.
class VirtualNow {
 public:
  explicit VirtualNow(HostTime at);
  ~VirtualNow();
  VirtualNow(const VirtualNow&) = delete;
  VirtualNow& operator=(const VirtualNow&) = delete;
};

// Converts between virtual time, the wall clock and the times that CUPTI reports.
class StampClock {
 public:
  StampClock() = default;
  // Virtual time 0 is `zero`. The machine's CLOCK_REALTIME was `realtime` at that moment.
  StampClock(MonoTime zero, HostTime realtime, const ClockError& error)
      : zero_(zero), realtime_(realtime), error_(error) {}

  VirtualTime FromWall(MonoTime t) const { return VirtualTime((t - zero_).ns()); }
  MonoTime ToWall(VirtualTime t) const { return MonoTime(zero_.ns() + t.ns()); }
  HostTime Reported(VirtualTime t) const { return HostTime(realtime_.ns() + t.ns()) + error_.At(ToWall(t)); }
  MonoTime zero() const { return zero_; }
  HostTime realtime() const { return realtime_; }
  const ClockError& error() const { return error_; }

 private:
  MonoTime zero_;
  HostTime realtime_;
  ClockError error_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_RANK_PROCESS_CLOCK_H_
