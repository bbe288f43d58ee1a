// Effects that the ranks of a pipeline stage share, by a median polish of the ranks' own work.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_GROUP_EFFECTS_H_
#define LOCKSTEP_ANALYSIS_COMPARE_GROUP_EFFECTS_H_

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
  uint32_t stage = 0;              // the slowest stage
  double own_ns = 0, mean_ns = 0;  // its ranks' work per step, and the mean over the stages
  double others_ns = 0;       // median of the other stages: its time if it had only as much work as they have
  double effect = 0;          // own over mean, minus 1
  double variance_share = 0;  // share of the variance between ranks that stages explain
  double steps_slowest = 0;   // share of the steps in which it is the slowest
};

// The slowest stage. It is found if stages explain 70 % of the variance between ranks, and it is the slowest
// in most steps.
StageEffect FindStageEffect(std::span<const RankWork> works, uint32_t stages);

// A stage that slows down relative to the others in some of the steps.
struct StageEpisode {
  uint32_t stage = 0;
  Regime regime;  // its slow steps
  double effect =
      0;  // by how much its kernels slow down in them, relative to those of the median other stage
};

// nullopt: no stage has such steps, or its ranks do not agree on them.
std::optional<StageEpisode> FindStageEpisode(std::span<const RankWork> works, uint32_t stages);

std::vector<double> KernelTimeByStep(const Graph& graph, const GraphInput& input, uint32_t rank_index);

// The part `share` of every kernel of these ranks; only in the slow steps if `regime` is split.
Pieces ScaledKernels(const Graph& graph, std::span<const uint32_t> rank_indices, double share,
                     const Regime& regime = {});

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_COMPARE_GROUP_EFFECTS_H_
