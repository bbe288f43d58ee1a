// What ranks have in common with those of their pipeline stage: a median polish of their own work.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_GROUP_EFFECTS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_GROUP_EFFECTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/compare/pieces.h"
#include "analysis/compare/regimes.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

struct RankWork {
  uint32_t rank_index;
  uint32_t group;               // its stage
  std::vector<double> by_step;  // its kernels in each used step, nanoseconds
};

struct StageEffect {
  bool found = false;
  uint32_t stage = 0;              // the slowest
  double own_ns = 0, mean_ns = 0;  // its ranks' work per step, and the mean over the stages
  double others_ns =
      0;              // the median of the other stages: what it would take with no more to do than they have
  double effect = 0;  // own over mean, less 1
  double variance_share = 0;  // of the differences between ranks, what stages explain
  double steps_slowest = 0;   // part of the steps in which it is the slowest
};

// The slowest stage, found when stages explain 70 % of the differences between ranks and it is the slowest in
// most steps.
StageEffect FindStageEffect(std::span<const RankWork> works, uint32_t stages);

// A stage that is slower than the others in some steps than in the rest.
struct StageEpisode {
  uint32_t stage = 0;
  Regime regime;      // its slow steps
  double effect = 0;  // how much longer its kernels take in them, beside those of the median other stage
};

// nullopt: no stage, or one whose ranks do not agree on it.
std::optional<StageEpisode> FindStageEpisode(std::span<const RankWork> works, uint32_t stages);

std::vector<double> KernelTimeByStep(const Graph& graph, const GraphInput& input, uint32_t rank_index);

// So much of every kernel of these ranks, in the slow steps of a regime that has any.
Pieces ScaledKernels(const Graph& graph, std::span<const uint32_t> rank_indices, double share,
                     const Regime& regime = {});

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_GROUP_EFFECTS_H_
