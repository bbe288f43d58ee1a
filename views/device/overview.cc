#include "views/device/overview.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analysis/time/intervals.h"
#include "analysis/time/utilization.h"
#include "views/device/tensorboard_rules.h"
#include "views/host/host_tree.h"
#include "views/host/operators.h"

namespace lockstep::views {
namespace {

using capture::ActivityKind;
using capture::kNone;

// Says whether a kernel's name names tensor cores. Each name is examined once.
class TensorCoreNames {
 public:
  explicit TensorCoreNames(const capture::Capture& capture) : capture_(capture) {}
  bool Has(NameId name) {
    const auto [it, fresh] = known_.try_emplace(name, false);
    if (fresh) it->second = analysis::NamesTensorCores(capture_.Text(name));
    return it->second;
  }

 private:
  const capture::Capture& capture_;
  absl::flat_hash_map<NameId, bool> known_;
};

double Part(Nanos of, Nanos whole) { return static_cast<double>(of.ns()) / static_cast<double>(whole.ns()); }

// Returns the rank's kernels, clipped to the window.
capture::RankData KernelsWithin(const capture::RankData& rank, const HostInterval& window) {
  capture::RankData within;
  within.properties = rank.properties;
  within.kernel_details = rank.kernel_details;
  for (capture::DeviceActivity a : rank.activities) {
    if (a.kind != ActivityKind::kKernel) continue;
    a.start = std::max(a.start, window.start);
    a.end = std::min(a.end, window.end);
    if (a.start < a.end) within.activities.push_back(a);
  }
  return within;
}

void AddTensorBoardFigures(const capture::RankData& rank, const HostInterval& window, TensorCoreNames& names,
                           RankOverview& out) {
  const capture::RankData within = KernelsWithin(rank, window);
  if (within.activities.empty() || window.length() <= Nanos()) return;
  std::vector<HostInterval> busy;
  for (const capture::DeviceActivity& a : within.activities) busy.push_back({a.start, a.end});
  out.gpu_utilization = Part(analysis::Measure(analysis::Normalize(std::move(busy))), window.length());
  out.sm_efficiency = analysis::SmEfficiency(within, window.length());
  out.occupancy = analysis::AchievedOccupancy(within);
  Nanos all, tensor;
  for (const capture::DeviceActivity& a : rank.activities) {
    if (a.kind != ActivityKind::kKernel) continue;
    all += a.end - a.start;
    if (names.Has(a.name)) tensor += a.end - a.start;
  }
  if (all > Nanos()) out.tensor_core_fraction = Part(tensor, all);
}

struct Eligible {
  Nanos all, eligible, tensor;
};

// The result is by entry.
absl::flat_hash_map<uint32_t, Eligible> EligibleTimes(const capture::Capture& capture, const Process& process,
                                                      TensorCoreNames& names) {
  const HostTree tree = BuildHostTree(capture, process, FrameKinds{capture::FrameKind::kOperator});
  // By node: the node, or one around it, can use tensor cores.
  std::vector<char> eligible(tree.nodes.size());
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    const HostNode& node = tree.nodes[i];
    const bool around = node.parent != kNone && eligible[node.parent] != 0;
    eligible[i] =
        around || IsTensorCoreEligible(capture.Text(process.frames->frames[node.frame].name)) ? 1 : 0;
  }
  absl::flat_hash_map<uint32_t, Eligible> times;
  for (const Launch& launch : tree.launches) {
    const capture::DeviceActivity& a =
        capture.ranks[launch.activity.entry].activities[launch.activity.activity];
    if (a.kind != ActivityKind::kKernel) continue;
    Eligible& of = times[launch.activity.entry];
    of.all += a.end - a.start;
    if (launch.node == kNone || eligible[launch.node] == 0) continue;
    of.eligible += a.end - a.start;
    if (names.Has(a.name)) of.tensor += a.end - a.start;
  }
  return times;
}

void AddOurSteps(const capture::Capture& capture, const capture::RankData& rank, const analysis::Steps& steps,
                 const analysis::RankSteps& of, RankOverview& out) {
  const auto breakdowns = analysis::BreakDown(analysis::KindsOf(capture, rank), analysis::StepIntervals(of));
  for (size_t i = 0; i < breakdowns.size(); ++i) out.steps.push_back({steps.names[i], breakdowns[i]});
  out.mean = analysis::MeanOf(breakdowns);
}

void AddTensorBoardSteps(const capture::Capture& capture, const Process& process, TensorCoreNames& names,
                         std::vector<RankOverview>& out) {
  const std::vector<TensorBoardStep> steps = TensorBoardSteps(capture, process);
  if (steps.empty() || process.frames == nullptr) return;
  std::vector<HostInterval> slots;
  for (const TensorBoardStep& step : steps) slots.push_back(step.time);
  const auto breakdowns = analysis::BreakDown(TensorBoardKinds(capture, process), slots);
  for (const uint32_t entry : process.entries) {
    for (size_t i = 0; i < steps.size(); ++i) out[entry].steps.push_back({steps[i].number, breakdowns[i]});
    out[entry].mean = analysis::MeanOf(breakdowns);
    AddTensorBoardFigures(capture.ranks[entry], {slots.front().start, slots.back().end}, names, out[entry]);
  }
}

}  // namespace

std::vector<RankOverview> OverviewOf(const capture::Capture& capture, const analysis::Steps& steps,
                                     OverviewRule rule) {
  std::vector<RankOverview> out;
  TensorCoreNames names(capture);
  for (size_t r = 0; r < capture.ranks.size(); ++r) {
    const capture::RankData& rank = capture.ranks[r];
    RankOverview& row = out.emplace_back(RankOverview{.rank = rank.rank, .device = rank.device.value()});
    if (rank.has_properties) row.properties = &rank.properties;
    if (rule == OverviewRule::kLockstep) AddOurSteps(capture, rank, steps, steps.ranks[r], row);
  }
  for (const Process& process : ProcessesOf(capture)) {
    if (rule == OverviewRule::kTensorBoard) AddTensorBoardSteps(capture, process, names, out);
    if (process.frames == nullptr) continue;
    for (const auto& [entry, times] : EligibleTimes(capture, process, names)) {
      if (times.all > Nanos()) out[entry].eligible_fraction = Part(times.eligible, times.all);
      if (times.eligible > Nanos())
        out[entry].eligible_tensor_core_fraction = Part(times.tensor, times.eligible);
    }
  }
  return out;
}

}  // namespace lockstep::views
