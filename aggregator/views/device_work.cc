#include "aggregator/views/device_work.h"

#include <algorithm>

#include "aggregator/analysis/launches.h"

namespace lockstep::views {
namespace {

// When the last of several steps began; the end of time where there are fewer: HTA then leaves out nothing.
HostTime LastStep(const store::RankData& rank) {
  size_t steps = 0;
  HostTime last = HostTime::Min();
  for (const store::HostRange& range : rank.ranges) {
    if (range.kind != store::RangeKind::kStep) continue;
    ++steps;
    last = std::max(last, range.start);
  }
  return steps < 2 ? HostTime::Max() : last;
}

}  // namespace

std::vector<DeviceWork> DeviceWorkOf(const store::RankData& rank, DeviceRule rule) {
  const analysis::CallIndex calls(rank);
  const HostTime until = rule == DeviceRule::kHta ? LastStep(rank) : HostTime::Max();
  std::vector<DeviceWork> work;
  work.reserve(rank.activities.size());
  for (const store::DeviceActivity& a : rank.activities) {
    const uint32_t call = calls.Of(a.correlation);
    const store::ApiCall* launch = call == store::kNone ? nullptr : &rank.api_calls[call];
    if (until != HostTime::Max() && (launch == nullptr || launch->start >= until)) continue;
    work.push_back({&a, launch});
  }
  return work;
}

}  // namespace lockstep::views
