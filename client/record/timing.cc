#include "client/record/timing.h"

#include "base/read_clock.h"
#include "client/record/tick_clock.h"

namespace lockstep::client {

HostTime ActivityClock::now() const {
  const auto fn = fn_.load(std::memory_order_acquire);
  uint64_t stamp;
  if (fn == nullptr || fn(&stamp) != foreign::cupti::Result::kSuccess)
    return HostTime(ReadClock(CLOCK_REALTIME));
  const TickClock* ticks = ticks_.load(std::memory_order_relaxed);
  return HostTime(static_cast<int64_t>(ticks == nullptr ? stamp : ticks->ToHost(stamp)));
}

void TakeClockSnapshot(const ActivityClock& clock, int tries, ring::ClockRecord* out) {
  int64_t best_gap = INT64_MAX;
  for (int i = 0; i < tries; ++i) {
    // REALTIME comes first and last, so the gap bounds the error of every other reading against it.
    const int64_t before = ReadClock(CLOCK_REALTIME);
    const int64_t monotonic = ReadClock(CLOCK_MONOTONIC);
    const int64_t raw = ReadClock(CLOCK_MONOTONIC_RAW);
    const uint64_t tsc = ReadTicks();
    const int64_t cupti = clock.is_cupti() ? clock.now().ns() : 0;
    const int64_t after = ReadClock(CLOCK_REALTIME);
    const int64_t gap = after - before;
    if (gap < 0 || gap >= best_gap) continue;
    best_gap = gap;
    out->realtime_ns = before + gap / 2;
    out->monotonic_ns = monotonic;
    out->monotonic_raw_ns = raw;
    out->tsc = tsc;
    out->cupti_ns = cupti;
    out->gap_ns = gap;
  }
}

}  // namespace lockstep::client
