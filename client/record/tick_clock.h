// Converts stamps of the processor's counter to the host's clock.
//
// PyTorch's profiler makes CUPTI stamp records with the counter, and leaves it so after it has ended. Before
// CUPTI 13.3, device work keeps the host's clock if the profiler came after the first context, so both kinds
// of stamps may occur in one buffer. A stamp within an hour of the host's clock counts as the host's.
#ifndef LOCKSTEP_CLIENT_RECORD_TICK_CLOCK_H_
#define LOCKSTEP_CLIENT_RECORD_TICK_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "client/record/timing.h"

namespace lockstep::client {

class TickClock {
 public:
  constexpr TickClock() = default;

  // ---- the agent's thread ----
  // Measures the counter's rate for 10 ms. Conversions are possible from now on.
  void Begin(const Timing& timing);
  // Measures again, over the time since Begin. Call it several times per second.
  void Refresh();
  void End() { active_.store(false, std::memory_order_release); }
  // The largest difference so far between a measurement and the one before it: what a conversion was wrong
  // by.
  Nanos error() const { return error_; }

  // ---- any thread ----
  bool active() const { return active_.load(std::memory_order_acquire); }
  // Returns the stamp on the host's clock. A stamp of 0 stays 0, and all stamps stay while it is not active.
  uint64_t ToHost(uint64_t stamp) const;

 private:
  // Both clocks at the same time.
  struct Sample {
    uint64_t ticks = 0;
    int64_t ns = 0;
  };
  // A writer changes the line that no reader uses. Its fields are atomic, because a slow reader may still
  // have it.
  struct Line {
    std::atomic<uint64_t> ticks{0};
    std::atomic<int64_t> ns{0};
    std::atomic<double> ns_per_tick{0};
  };

  static Sample Read();
  static uint64_t Convert(const Line& line, uint64_t stamp);
  void Publish(const Sample& at, double ns_per_tick);

  std::atomic<bool> active_{false};
  std::atomic<uint32_t> current_{0};
  Line lines_[2];
  Sample first_;
  Nanos error_;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORD_TICK_CLOCK_H_
