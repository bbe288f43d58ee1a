#include "analysis/time/device_use.h"

#include <algorithm>

#include "analysis/time/intervals.h"
#include "analysis/time/step_breakdown.h"
#include "analysis/time/time_partition.h"

namespace lockstep::analysis {
namespace {

using HostSet = IntervalSet<HostTime>;

// The times in which the device idles and its next work is not launched yet. Without recorded calls, that may
// be any idle time.
HostSet IdleBeforeLaunches(const capture::RankData& rank, const HostSet& busy, const CallIndex& calls) {
  HostSet out;
  const std::vector<HostTime> launches = LaunchTimes(rank, calls);
  size_t next = 0;  // into the rank's activities: the first one of the busy interval
  HostTime idle_since = std::min(rank.window.start, busy.empty() ? HostTime::Max() : busy.front().start);
  for (const HostInterval& interval : busy) {
    while (next < rank.activities.size() && rank.activities[next].start < interval.start) ++next;
    if (next == rank.activities.size()) break;
    AppendInOrder(out, {idle_since, std::min(launches[next], interval.start)});
    idle_since = interval.end;
  }
  // Nothing is known of the work after the last one.
  if (!busy.empty()) AppendInOrder(out, {idle_since, rank.window.end});
  return out;
}

// The times in which the host works: in calls and operators, and in the short times between them.
HostSet WorkingHost(const StepKinds& kinds) {
  HostSet out;
  for (const HostInterval& next : Union(kinds.runtime, kinds.cpu_exec)) {
    if (!out.empty() && next.start - out.back().end < kSilence)
      out.back().end = std::max(out.back().end, next.end);
    else
      out.push_back(next);
  }
  return out;
}

}  // namespace

std::vector<DeviceUse> DeviceUseOfSteps(const capture::Capture& capture, const capture::RankData& rank,
                                        const RankSteps& steps, const std::vector<Part>& parts,
                                        const CallIndex& calls) {
  const DeviceSets device = DeviceSetsOf(rank, parts);
  const StepKinds kinds = KindsOf(capture, rank);
  const HostSet late = IdleBeforeLaunches(rank, device.busy, calls);
  const HostSet input = Intersect(late, kinds.dataloader);
  const HostSet not_input = Subtract(late, kinds.dataloader);
  const HostSet launching = rank.api_calls.empty() ? HostSet() : Intersect(not_input, WorkingHost(kinds));
  std::vector<DeviceUse> out;
  for (const HostInterval& slot : StepIntervals(steps)) {
    const auto in_slot = [&](const HostSet& set) { return Measure(Clip(set, slot)); };
    DeviceUse use{.compute = in_slot(device.compute),
                  .exposed_transfer = in_slot(device.exposed_transfer),
                  .exposed_wait = in_slot(device.exposed_wait),
                  .exposed_unsplit = in_slot(device.exposed_unsplit),
                  .copies = in_slot(device.exposed_memory),
                  .input = in_slot(input),
                  .host_launch = in_slot(launching)};
    if (!rank.api_calls.empty()) use.host_silent = in_slot(not_input) - use.host_launch;
    use.idle_other = slot.length() - use.compute - use.exposed_transfer - use.exposed_wait -
                     use.exposed_unsplit - use.copies - use.input - use.host_launch - use.host_silent;
    out.push_back(use);
  }
  return out;
}

}  // namespace lockstep::analysis
