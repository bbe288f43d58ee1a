#include "analysis/compare/group_effects.h"

#include <algorithm>
#include <cmath>

#include "analysis/prepare/stats.h"

namespace lockstep::analysis {
namespace {

constexpr double kLeastEffect = 0.03;
constexpr double kVarianceShare = 0.7;
constexpr double kSlowestIn = 0.8;
// In an episode, this share of a stage's ranks slow down by at least the part kOfMiddle of the stage's
// slowdown. There must be kLeastOfEach slow steps, and as many others.
constexpr double kRanksOfStage = 0.8, kOfMiddle = 0.5;
constexpr size_t kLeastOfEach = 2;

// By stage and step: the median over the stage's ranks.
std::vector<std::vector<double>> LevelsOf(std::span<const RankWork> works, uint32_t stages) {
  const size_t steps = works[0].by_step.size();
  std::vector<std::vector<double>> levels(stages), values(stages);
  for (auto& of_stage : levels) of_stage.resize(steps);
  for (size_t k = 0; k < steps; ++k) {
    for (auto& v : values) v.clear();
    for (const RankWork& w : works) values[w.group].push_back(w.by_step[k]);
    for (uint32_t s = 0; s < stages; ++s) levels[s][k] = MedianInPlace(std::span(values[s]));
  }
  return levels;
}

// Means of a series in the slow steps of a regime, and in the others.
struct Means {
  double slow = 0, usual = 0;
};

Means MeansOf(std::span<const double> series, const Regime& regime) {
  Means sums;
  double slow = 0;
  for (size_t k = 0; k < series.size(); ++k) {
    (regime.SlowAt(k) ? sums.slow : sums.usual) += series[k];
    slow += regime.SlowAt(k) ? 1 : 0;
  }
  const double usual = static_cast<double>(series.size()) - slow;
  return {slow > 0 ? sums.slow / slow : 0, usual > 0 ? sums.usual / usual : 0};
}

// By step: the ratio to the median other stage.
std::vector<double> BesideOthers(std::span<const double> own, const std::vector<std::vector<double>>& levels,
                                 uint32_t stage) {
  std::vector<double> out(own.size(), 0), others;
  for (size_t k = 0; k < own.size(); ++k) {
    others.clear();
    for (uint32_t s = 0; s < levels.size(); ++s) {
      if (s != stage) others.push_back(levels[s][k]);
    }
    const double middle = MedianInPlace(std::span(others));
    out[k] = middle > 0 ? own[k] / middle : 0;
  }
  return out;
}

}  // namespace

std::optional<StageEpisode> FindStageEpisode(std::span<const RankWork> works, uint32_t stages) {
  if (stages < 2 || works.empty()) return std::nullopt;
  const std::vector<std::vector<double>> levels = LevelsOf(works, stages);
  std::optional<StageEpisode> best;
  for (uint32_t s = 0; s < stages; ++s) {
    const std::vector<double> ratio = BesideOthers(levels[s], levels, s);
    const Regime regime = FindRegime(ratio, kLeastEffect);
    const auto slow = static_cast<size_t>(std::count(regime.slow.begin(), regime.slow.end(), 1));
    if (slow < kLeastOfEach || ratio.size() - slow < kLeastOfEach) continue;
    const Means stage = MeansOf(ratio, regime);
    if (stage.usual <= 0) continue;
    StageEpisode e{.stage = s, .regime = regime, .effect = stage.slow / stage.usual - 1};
    // With two stages, one also seems slower if the other gets faster. So its own time must rise too.
    const Means alone = MeansOf(levels[s], regime);
    if (alone.slow < (1 + kOfMiddle * e.effect) * alone.usual) continue;
    size_t ranks = 0, agree = 0;
    for (const RankWork& w : works) {
      if (w.group != s) continue;
      ++ranks;
      const Means own = MeansOf(BesideOthers(w.by_step, levels, s), regime);
      agree += own.slow >= (1 + kOfMiddle * e.effect) * own.usual ? 1 : 0;
    }
    if (e.effect < kLeastEffect || static_cast<double>(agree) < kRanksOfStage * static_cast<double>(ranks))
      continue;
    if (!best || e.effect > best->effect) best = std::move(e);
  }
  return best;
}

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
  const std::vector<std::vector<double>> levels = LevelsOf(works, stages);
  for (size_t k = 0; k < steps; ++k) {
    slowest += std::all_of(levels.begin(), levels.end(),
                           [&](const auto& of_stage) { return of_stage[k] <= levels[out.stage][k]; })
                   ? 1
                   : 0;
  }
  out.steps_slowest = steps > 0 ? static_cast<double>(slowest) / static_cast<double>(steps) : 0;
  out.found =
      out.effect >= kLeastEffect && out.variance_share >= kVarianceShare && out.steps_slowest >= kSlowestIn;
  return out;
}

std::vector<double> KernelTimeByStep(const Graph& graph, const GraphInput& input, uint32_t rank_index) {
  std::vector<double> sums(input.steps.count(), 0);
  for (uint32_t u = graph.rank_begin[rank_index]; u < graph.rank_begin[rank_index + 1]; ++u) {
    if (graph.units[u].kind == UnitKind::kKernel && graph.units[u].step >= 0)
      sums[static_cast<size_t>(graph.units[u].step)] += graph.work[u];
  }
  return sums;
}

Pieces ScaledKernels(const Graph& graph, std::span<const uint32_t> rank_indices, double share,
                     const Regime& regime) {
  Pieces pieces;
  for (uint32_t r : rank_indices) {
    for (uint32_t u = graph.rank_begin[r]; u < graph.rank_begin[r + 1]; ++u) {
      if (graph.units[u].kind != UnitKind::kKernel || graph.units[u].step < 0) continue;
      if (regime.split() && !regime.SlowAt(static_cast<size_t>(graph.units[u].step))) continue;
      pieces.push_back({EndOf(u), graph.work[u] * share});
    }
  }
  return pieces;
}

}  // namespace lockstep::analysis
