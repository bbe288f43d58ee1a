#include "analysis/time/step_breakdown.h"

#include <algorithm>
#include <string_view>

namespace lockstep::analysis {
namespace {

using capture::ActivityKind;
using Set = IntervalSet<HostTime>;

Set Ranges(const capture::Capture& capture, const capture::RankData& rank, bool loader) {
  std::vector<HostInterval> out;
  for (const capture::HostRange& r : rank.ranges) {
    const bool is_loader = capture.Text(r.name).find("DataLoader") != std::string_view::npos;
    if (loader ? is_loader : r.kind == capture::RangeKind::kOperator && !is_loader)
      out.push_back({r.start, r.end});
  }
  return Normalize(std::move(out));
}

}  // namespace

Set LoaderTimes(const capture::Capture& capture, const capture::RankData& rank) {
  return Union(rank.unions.data_loader, Ranges(capture, rank, true));
}

StepKinds KindsOf(const capture::Capture& capture, const capture::RankData& rank) {
  StepKinds kinds;
  for (const capture::DeviceActivity& a : rank.activities) {
    Set& set = a.communication                   ? kinds.communication
               : a.kind == ActivityKind::kMemcpy ? kinds.memcpy
               : a.kind == ActivityKind::kMemset ? kinds.memset
                                                 : kinds.kernel;
    AppendInOrder(set, {a.start, a.end});
  }
  for (const capture::ApiCall& c : rank.api_calls) AppendInOrder(kinds.runtime, {c.start, c.end});
  kinds.dataloader = LoaderTimes(capture, rank);
  kinds.cpu_exec = Union(rank.unions.operators, Ranges(capture, rank, false));
  return kinds;
}

std::vector<HostInterval> StepIntervals(const RankSteps& steps) {
  std::vector<HostInterval> slots;
  HostTime before = HostTime::Min();
  for (const RankStep& s : steps.steps) {
    const HostTime start = std::max(before, s.host.start);
    before = std::max({start, s.host.end, s.device_end});
    slots.push_back({start, before});
  }
  return slots;
}

std::vector<StepBreakdown> BreakDown(const StepKinds& kinds, const std::vector<HostInterval>& slots) {
  std::vector<StepBreakdown> out;
  out.reserve(slots.size());
  for (const HostInterval& slot : slots) {
    StepBreakdown& b = out.emplace_back();
    Set left = Normalize(std::vector{slot});
    const auto take = [&](const Set& kind, Nanos& into) {
      const Set here = Clip(kind, slot);
      into = Measure(Intersect(here, left));
      left = Subtract(left, here);
    };
    take(kinds.kernel, b.kernel);
    take(kinds.memcpy, b.memcpy);
    take(kinds.memset, b.memset);
    take(kinds.communication, b.communication);
    take(kinds.runtime, b.runtime);
    take(kinds.dataloader, b.dataloader);
    take(kinds.cpu_exec, b.cpu_exec);
    b.other = Measure(left);
  }
  return out;
}

StepBreakdown MeanOf(const std::vector<StepBreakdown>& steps) {
  StepBreakdown mean;
  if (steps.empty()) return mean;
  Nanos total;
  for (const StepBreakdown& s : steps) total += s.Total();
  const auto n = static_cast<int64_t>(steps.size());
  Nanos taken;
  const auto of = [&](Nanos StepBreakdown::*kind) {
    for (const StepBreakdown& s : steps) mean.*kind += s.*kind;
    mean.*kind = mean.*kind / n;
    taken += mean.*kind;
  };
  for (Nanos StepBreakdown::*kind :
       {&StepBreakdown::kernel, &StepBreakdown::memcpy, &StepBreakdown::memset, &StepBreakdown::communication,
        &StepBreakdown::runtime, &StepBreakdown::dataloader, &StepBreakdown::cpu_exec}) {
    of(kind);
  }
  // Means are rounded down to whole nanoseconds. `other` takes the remainder, so that they sum to the mean
  // step.
  mean.other = total / n - taken;
  return mean;
}

StepBreakdown BreakDownSteps(const capture::Capture& capture, const capture::RankData& rank,
                             const RankSteps& steps) {
  return MeanOf(BreakDown(KindsOf(capture, rank), StepIntervals(steps)));
}

}  // namespace lockstep::analysis
