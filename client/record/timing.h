// The client's view of time: the host's clocks, the clock of CUPTI's stamps, and the window of a capture.
#ifndef LOCKSTEP_CLIENT_RECORD_TIMING_H_
#define LOCKSTEP_CLIENT_RECORD_TIMING_H_

#include <time.h>

#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "wire/foreign/cupti.h"
#include "wire/ring/record.h"

namespace lockstep::client {

class TickClock;

inline int64_t ReadClock(clockid_t id) {
  timespec t;
  ::clock_gettime(id, &t);
  return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

// The host's clocks and a way to wait. Tests pass their own. The members are function pointers, because pure
// virtual functions would need libstdc++.
struct Timing {
  HostTime (*realtime)();
  MonoTime (*monotonic)();
  void (*pause)(Nanos);
};

inline constexpr Timing kSystemTiming = {
    [] { return HostTime(ReadClock(CLOCK_REALTIME)); },
    [] { return MonoTime(ReadClock(CLOCK_MONOTONIC)); },
    [](Nanos d) {
      timespec t{d.ns() / 1000000000, d.ns() % 1000000000};
      ::nanosleep(&t, nullptr);
    },
};

// The clock with which CUPTI stamps records: cuptiGetTimestamp if CUPTI is open, else CLOCK_REALTIME. Ranges
// and NCCL events use it too, so that all records of a process share one clock. Any thread may call it.
class ActivityClock {
 public:
  constexpr ActivityClock() = default;
  // `ticks` converts if CUPTI stamps with the processor's counter.
  void Use(foreign::cupti::GetTimestampFn fn, const TickClock* ticks) {
    ticks_.store(ticks, std::memory_order_relaxed);
    fn_.store(fn, std::memory_order_release);
  }

  HostTime now() const;
  bool is_cupti() const { return fn_.load(std::memory_order_acquire) != nullptr; }

 private:
  std::atomic<foreign::cupti::GetTimestampFn> fn_{nullptr};
  std::atomic<const TickClock*> ticks_{nullptr};
};

// The window [T0, T1) of the running capture. It is closed while a capture is only armed. The agent's thread
// or a trigger writes it, and any thread reads it.
class Window {
 public:
  constexpr Window() = default;
  void Open(HostTime t0, HostTime t1) {
    t1_.store(t1.ns(), std::memory_order_relaxed);
    t0_.store(t0.ns(), std::memory_order_release);
  }
  // Sets an earlier end. A later one is ignored.
  void EndAt(HostTime t1) {
    if (t1.ns() < t1_.load(std::memory_order_relaxed)) t1_.store(t1.ns(), std::memory_order_relaxed);
  }
  void Close() { t0_.store(kNever, std::memory_order_release); }

  bool open() const { return t0_.load(std::memory_order_acquire) != kNever; }
  HostTime t0() const { return HostTime(t0_.load(std::memory_order_acquire)); }
  HostTime t1() const { return HostTime(t1_.load(std::memory_order_relaxed)); }
  bool Contains(HostTime t) const { return t >= t0() && t < t1(); }

 private:
  static constexpr int64_t kNever = HostTime::Max().ns();
  std::atomic<int64_t> t0_{kNever};
  std::atomic<int64_t> t1_{kNever};
};

// Reads all clocks together `tries` times, and returns the set with the smallest gap. It sets only the clock
// fields.
void TakeClockSnapshot(const ActivityClock& clock, int tries, ring::ClockRecord* out);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORD_TIMING_H_
