// The simulated host's clocks.
//
// lockstep-sim-rank defines clock_gettime itself, so that every library in the process, the tool included,
// reads the CLOCK_REALTIME that the stamps are on: the machine's plus the offset and drift asked for. During
// one of the rank's own calls (an NVTX range, an NCCL event) the calling thread reads the virtual instant of
// that call, as a host that really worked in virtual time would. All other clocks are the machine's.
#ifndef LOCKSTEP_SIM_RANK_PROCESS_CLOCK_H_
#define LOCKSTEP_SIM_RANK_PROCESS_CLOCK_H_

#include <cstdint>

#include "base/time.h"

namespace lockstep::sim {

// By how much the simulated host's CLOCK_REALTIME is ahead of the machine's: offset at `reference`, growing
// with drift.
struct ClockError {
  Nanos offset;
  int64_t drift_ppb = 0;
  MonoTime reference;
  Nanos At(MonoTime t) const {
    return offset + Nanos(static_cast<int64_t>(static_cast<__int128>((t - reference).ns()) * drift_ppb /
                                               1'000'000'000));
  }
};

// The machine's own, whatever is preloaded.
MonoTime MachineMonotonic();
HostTime MachineRealtime();

// What this process's CLOCK_REALTIME is to show from now on. Before the first thread is started.
void SetProcessClock(const ClockError& error);

// While one lives, the calling thread's CLOCK_REALTIME stands at `at`. Not nested.
class VirtualNow {
 public:
  explicit VirtualNow(HostTime at);
  ~VirtualNow();
  VirtualNow(const VirtualNow&) = delete;
  VirtualNow& operator=(const VirtualNow&) = delete;
};

// Between virtual time, the wall and what CUPTI reports.
class StampClock {
 public:
  StampClock() = default;
  // Virtual 0 is `zero`; the machine's CLOCK_REALTIME was `realtime` then.
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
