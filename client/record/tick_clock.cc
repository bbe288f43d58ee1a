#include "client/record/tick_clock.h"

#include "base/read_clock.h"

namespace lockstep::client {
namespace {

constexpr int kTries = 20;
constexpr Nanos kFirstInterval = Nanos::Millis(10);
constexpr int64_t kHostsOwnNs = Nanos::Seconds(3600).ns();

}  // namespace

// Takes the reading with the smallest gap between the counter before and after it.
TickClock::Sample TickClock::Read() {
  Sample best;
  uint64_t best_gap = UINT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = ReadTicks();
    const int64_t ns = ReadClockNs(CLOCK_REALTIME);
    const uint64_t gap = ReadTicks() - before;
    if (gap >= best_gap) continue;
    best_gap = gap;
    best = {before + gap / 2, ns};
  }
  return best;
}

void TickClock::Publish(const Sample& at, double ns_per_tick) {
  const uint32_t next = 1 - current_.load(std::memory_order_relaxed);
  lines_[next].ticks.store(at.ticks, std::memory_order_relaxed);
  lines_[next].ns.store(at.ns, std::memory_order_relaxed);
  lines_[next].ns_per_tick.store(ns_per_tick, std::memory_order_relaxed);
  current_.store(next, std::memory_order_release);
}

void TickClock::Begin(const Timing& timing) {
  first_ = Read();
  timing.pause(kFirstInterval);
  const Sample now = Read();
  error_ = Nanos();
  Publish(now, static_cast<double>(now.ns - first_.ns) / static_cast<double>(now.ticks - first_.ticks));
  active_.store(true, std::memory_order_release);
}

void TickClock::Refresh() {
  if (!active()) return;
  const Sample now = Read();
  const auto converted =
      static_cast<int64_t>(Convert(lines_[current_.load(std::memory_order_relaxed)], now.ticks));
  const Nanos off(converted > now.ns ? converted - now.ns : now.ns - converted);
  if (off > error_) error_ = off;
  Publish(now, static_cast<double>(now.ns - first_.ns) / static_cast<double>(now.ticks - first_.ticks));
}

uint64_t TickClock::Convert(const Line& line, uint64_t stamp) {
  const int64_t ns = line.ns.load(std::memory_order_relaxed);
  const int64_t from_hosts = static_cast<int64_t>(stamp) - ns;
  if (from_hosts < kHostsOwnNs && from_hosts > -kHostsOwnNs) return stamp;
  const auto ticks = static_cast<int64_t>(stamp - line.ticks.load(std::memory_order_relaxed));
  const double since = static_cast<double>(ticks) * line.ns_per_tick.load(std::memory_order_relaxed);
  return static_cast<uint64_t>(ns + static_cast<int64_t>(since));
}

uint64_t TickClock::ToHost(uint64_t stamp) const {
  if (stamp == 0 || !active()) return stamp;
  return Convert(lines_[current_.load(std::memory_order_acquire)], stamp);
}

}  // namespace lockstep::client
