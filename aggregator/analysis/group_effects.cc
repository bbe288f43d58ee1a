#include "aggregator/analysis/group_effects.h"

#include <algorithm>
#include <cmath>

#include "aggregator/analysis/stats.h"

namespace lockstep::analysis {
namespace {

constexpr double kLeastEffect = 0.03;
constexpr double kVarianceShare = 0.7;
constexpr double kSlowestIn = 0.8;

}  // namespace

StageEffect FindStageEffect(std::span<const RankWork> works, uint32_t stages) {
  StageEffect out;
  if (stages < 2 || works.empty()) return out;
  const size_t steps = works[0].by_step.size();
  std::vector<std::vector<double>> totals(stages), logs(stages);
  std::vector<double> all;
  for (const RankWork& w : works) {
    const double typical = Median(w.by_step);
    if (typical <= 0) return out;
    totals[w.group].push_back(typical);
    logs[w.group].push_back(std::log(typical));
    all.push_back(std::log(typical));
  }
  double mean_log = 0, mean_ns = 0;
  std::vector<double> level(stages);
  for (uint32_t s = 0; s < stages; ++s) {
    if (totals[s].empty()) return out;
    level[s] = Median(totals[s]);
    mean_ns += level[s] / stages;
  }
  for (double v : all) mean_log += v / static_cast<double>(all.size());
  double between = 0, total = 0;
  for (uint32_t s = 0; s < stages; ++s) {
    const double effect = Median(logs[s]) - mean_log;
    between += effect * effect * static_cast<double>(logs[s].size());
    for (double v : logs[s]) total += (v - mean_log) * (v - mean_log);
  }
  out.stage = static_cast<uint32_t>(std::max_element(level.begin(), level.end()) - level.begin());
  out.own_ns = level[out.stage];
  out.mean_ns = mean_ns;
  std::vector<double> others = level;
  others.erase(others.begin() + out.stage);
  out.others_ns = Median(std::move(others));
  out.effect = mean_ns > 0 ? out.own_ns / mean_ns - 1 : 0;
  out.variance_share = total > 0 ? std::min(1.0, between / total) : 0;
  size_t slowest = 0;
  std::vector<double> now(stages);
  for (size_t k = 0; k < steps; ++k) {
    std::vector<std::vector<double>> values(stages);
    for (const RankWork& w : works) values[w.group].push_back(w.by_step[k]);
    for (uint32_t s = 0; s < stages; ++s) now[s] = Median(std::move(values[s]));
    slowest += std::max_element(now.begin(), now.end()) - now.begin() == static_cast<std::ptrdiff_t>(out.stage) ? 1 : 0;
  }
  out.steps_slowest = steps > 0 ? static_cast<double>(slowest) / static_cast<double>(steps) : 0;
  out.found = out.effect >= kLeastEffect && out.variance_share >= kVarianceShare && out.steps_slowest >= kSlowestIn;
  return out;
}

std::vector<double> KernelTimeByStep(const Graph& graph, const GraphInput& input, uint32_t rank_index) {
  std::vector<double> sums(input.steps.count(), 0);
  for (uint32_t u = graph.rank_begin[rank_index]; u < graph.rank_begin[rank_index + 1]; ++u) {
    if (graph.units[u].kind == UnitKind::kKernel && graph.units[u].step >= 0) sums[static_cast<size_t>(graph.units[u].step)] += graph.work[u];
  }
  return sums;
}

Pieces ScaledKernels(const Graph& graph, std::span<const uint32_t> rank_indices, double share) {
  Pieces pieces;
  for (uint32_t r : rank_indices) {
    for (uint32_t u = graph.rank_begin[r]; u < graph.rank_begin[r + 1]; ++u) {
      if (graph.units[u].kind == UnitKind::kKernel && graph.units[u].step >= 0) pieces.push_back({EndOf(u), graph.work[u] * share});
    }
  }
  return pieces;
}

}  // namespace lockstep::analysis
