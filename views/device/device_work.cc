#include "views/device/device_work.h"

#include <algorithm>

namespace lockstep::views {
namespace {

// Returns the start of the last step. With fewer than two steps it returns the end of time, because HTA then
// leaves out nothing.
HostTime LastStep(const capture::RankData& rank) {
  size_t steps = 0;
  HostTime last = HostTime::Min();
  for (const capture::HostRange& range : rank.ranges) {
    if (range.kind != capture::RangeKind::kStep) continue;
    ++steps;
    last = std::max(last, range.start);
  }
  return steps < 2 ? HostTime::Max() : last;
}

}  // namespace

std::vector<DeviceWork> DeviceWorkOf(const capture::RankData& rank, DeviceRule rule) {
  std::vector<DeviceWork> work = analysis::DeviceWorkOf(rank);
  const HostTime until = rule == DeviceRule::kHta ? LastStep(rank) : HostTime::Max();
  if (until != HostTime::Max())
    std::erase_if(work, [&](const DeviceWork& w) { return w.launch == nullptr || w.launch->start >= until; });
  return work;
}

}  // namespace lockstep::views
