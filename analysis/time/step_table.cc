#include "analysis/time/step_table.h"

#include <algorithm>

#include "analysis/time/intervals.h"

namespace lockstep::analysis {

std::vector<StepOfRank> TimeSteps(const capture::RankData& rank, const RankSteps& steps,
                                  const std::vector<Part>& parts) {
  const size_t n = steps.steps.size();
  std::vector<StepOfRank> out(n);
  std::vector<IntervalSet<HostTime>> compute(n), communication(n), active(n);
  std::vector<std::vector<HostInterval>> wait(n);
  std::vector<uint8_t> any_collective(n, 0), any_split(n, 0);
  for (size_t i = 0; i < rank.activities.size() && i < steps.of_activity.size(); ++i) {
    if (steps.of_activity[i] < 0) continue;
    const auto k = static_cast<size_t>(steps.of_activity[i]);
    const capture::DeviceActivity& a = rank.activities[i];
    AppendInOrder(active[k], {a.start, a.end});
    if (a.type() == capture::WorkType::kMemory) continue;
    AppendInOrder(a.communication ? communication[k] : compute[k], {a.start, a.end});
  }
  for (size_t i = 0; i < rank.collectives.size(); ++i) {
    const uint32_t activity = rank.collectives[i].activity;
    if (activity >= steps.of_activity.size() || steps.of_activity[activity] < 0) continue;
    const auto k = static_cast<size_t>(steps.of_activity[activity]);
    any_collective[k] = 1;
    if (!parts[i].split) continue;
    any_split[k] = 1;
    wait[k].push_back({rank.activities[activity].start, rank.activities[activity].start + parts[i].wait});
  }
  HostTime before = HostTime::Min();
  for (size_t k = 0; k < n; ++k) {
    const RankStep& s = steps.steps[k];
    const HostTime end = std::max(s.device_end, s.host.end);
    const HostTime start = std::min(std::max(before, s.host.start), end);
    out[k].duration = end - start;
    const Nanos waited = Measure(Clip(Normalize(std::move(wait[k])), HostInterval{start, end}));
    if (any_split[k] || !any_collective[k]) out[k].wait = waited;
    out[k].self = out[k].duration - waited;
    out[k].overlap = Measure(Intersect(compute[k], communication[k]));
    out[k].compute = Measure(compute[k]);
    out[k].active = Measure(active[k]);
    before = end;
  }
  return out;
}

}  // namespace lockstep::analysis
