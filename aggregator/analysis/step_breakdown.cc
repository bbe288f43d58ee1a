#include "aggregator/analysis/step_breakdown.h"

#include <string_view>
#include <vector>

#include "aggregator/analysis/intervals.h"

namespace lockstep::analysis {
namespace {

using store::ActivityKind;
using Set = IntervalSet<HostTime>;

// From the previous step's end (or the range's start) to the end of the range or of the work launched in it.
Set StepSlots(const RankSteps& steps) {
  std::vector<HostInterval> slots;
  HostTime before = HostTime::Min();
  for (const RankStep& s : steps.steps) {
    const HostTime end = std::max(s.host.end, s.device_end);
    slots.push_back({std::max(before, s.host.start), end});
    before = end;
  }
  return Normalize(std::move(slots));
}

Set Ranges(const store::Capture& capture, const store::RankData& rank, bool loader) {
  std::vector<HostInterval> out;
  for (const store::HostRange& r : rank.ranges) {
    const bool is_loader = capture.Text(r.name).find("DataLoader") != std::string_view::npos;
    if (loader ? is_loader : r.kind == store::RangeKind::kOperator && !is_loader) out.push_back({r.start, r.end});
  }
  return Normalize(std::move(out));
}

}  // namespace

StepBreakdown BreakDownSteps(const store::Capture& capture, const store::RankData& rank, const RankSteps& steps) {
  StepBreakdown out;
  if (steps.steps.empty()) return out;
  Set kernel, memcpy, memset, communication, runtime;
  for (const store::DeviceActivity& a : rank.activities) {
    Set& set = a.kind == ActivityKind::kMemcpy   ? memcpy
               : a.kind == ActivityKind::kMemset ? memset
               : a.communication                 ? communication
                                                 : kernel;
    AppendInOrder(set, {a.start, a.end});
  }
  for (const store::ApiCall& c : rank.api_calls) AppendInOrder(runtime, {c.start, c.end});
  const Set loader = Union(rank.unions.data_loader, Ranges(capture, rank, true));
  const Set operators = Union(rank.unions.operators, Ranges(capture, rank, false));
  Set left = StepSlots(steps);
  const auto n = static_cast<int64_t>(steps.steps.size());
  const Nanos step = Measure(left) / n;
  Nanos taken;
  const auto take = [&](const Set& kind, Nanos& into) {
    into = Measure(Intersect(kind, left)) / n;
    left = Subtract(left, kind);
    taken += into;
  };
  take(kernel, out.kernel);
  take(memcpy, out.memcpy);
  take(memset, out.memset);
  take(communication, out.communication);
  take(runtime, out.runtime);
  take(loader, out.dataloader);
  take(operators, out.cpu_exec);
  out.other = step - taken;
  return out;
}

}  // namespace lockstep::analysis
