#include "capture/align/network_clock.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "capture/align/clock_fit.h"

namespace lockstep::capture {
namespace {

// The kernel slews a clock by at most 500 ppm, so two slewed clocks drift apart by at most 1000 ppm.
constexpr double kMaxSlewedDrift = 1e-3;
// If REALTIME and MONOTONIC diverge between two exchanges by more than slewing plus this, REALTIME was
// stepped.
constexpr Nanos kStepFloor = Nanos::Micros(500);

struct Segment {
  size_t first;
  size_t count;
  Nanos steps;  // sizes of the steps in the window that lie outside this segment
};

// False for an impossible exchange: a negative round trip, or an answer that was sent before its question
// came.
bool Sane(const capture::ClockExchange& e) {
  return e.t4 >= e.t1 && e.t3 >= e.t2 && (e.t4 - e.t1) >= (e.t3 - e.t2);
}

Nanos StepBetween(const capture::ClockExchange& a, const capture::ClockExchange& b) {
  const Nanos real = b.t4 - a.t4;  // MONOTONIC is read at t4
  const Nanos mono = b.monotonic - a.monotonic;
  const Nanos parted(std::llabs((real - mono).ns()));
  const Nanos slewed(static_cast<int64_t>(kMaxSlewedDrift * static_cast<double>(std::llabs(mono.ns()))));
  return parted > kStepFloor + slewed ? parted : Nanos();
}

Segment LongestSegment(const std::vector<capture::ClockExchange>& exchanges, HostInterval window) {
  Segment best{0, 0, Nanos()};
  Nanos steps;
  size_t first = 0;
  for (size_t i = 1; i <= exchanges.size(); ++i) {
    const Nanos step = i < exchanges.size() ? StepBetween(exchanges[i - 1], exchanges[i]) : Nanos();
    if (i < exchanges.size() && step == Nanos()) continue;
    if (i - first > best.count) best = {first, i - first, Nanos()};
    first = i;
    if (i < exchanges.size() && exchanges[i].t1 >= window.start && exchanges[i - 1].t1 <= window.end)
      steps += step;
  }
  best.steps = steps;
  return best;
}

}  // namespace

std::optional<HostClock> ClockFromNetwork(std::span<const capture::ClockExchange> all, HostInterval window) {
  std::vector<capture::ClockExchange> exchanges;
  for (const capture::ClockExchange& e : all) {
    if (Sane(e)) exchanges.push_back(e);
  }
  if (exchanges.empty()) return std::nullopt;
  // MONOTONIC keeps the order even if REALTIME was set back.
  std::stable_sort(exchanges.begin(), exchanges.end(),
                   [](const auto& a, const auto& b) { return a.monotonic < b.monotonic; });
  const Segment segment = LongestSegment(exchanges, window);
  const HostTime origin = window.start + (window.end - window.start) / 2;
  OffsetRegion region(origin, kMaxSlewedDrift);
  std::vector<LeadSample> samples;
  for (size_t i = segment.first; i < segment.first + segment.count; ++i) {
    const capture::ClockExchange& e = exchanges[i];
    const Nanos there(e.t1.ns() - e.t2.ns());  // lead minus the way there
    const Nanos back(e.t4.ns() - e.t3.ns());   // lead plus the way back
    region.AddLower(e.t1, there);
    region.AddUpper(e.t4, back);
    samples.push_back({e.t1 + (e.t4 - e.t1) / 2, there + (back - there) / 2, (back - there) / 2});
  }
  const ClockFit fit = FitLead(std::move(samples), region, window);
  HostClock clock;
  clock.offset = Nanos(static_cast<int64_t>(fit.line.offset_ns));
  clock.drift = fit.line.drift;
  clock.anchor = fit.origin;
  clock.bound = fit.bound == Nanos::Max() ? fit.bound : fit.bound + segment.steps;
  clock.method = ClockMethod::kNetwork;
  clock.step_noticed = segment.count < exchanges.size() || fit.stepped;
  return clock;
}

}  // namespace lockstep::capture
