// The job's layout as its communicators show it: pipeline stages, and which groups shard layers (tensor) or
// replicate them (data).
//
// Ranks that exchange messages are one pipeline; a chain of them is its stages in order, a ring its stages
// with interleaved chunks. In a step the first stage sends before it receives, all others the reverse: that
// tells the ends apart. Where pipelines differ in length, or who exchanges with whom is not recorded (kernels
// that hide their peers), nothing is claimed. Pure; any thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_STAGES_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_STAGES_H_

#include <cstdint>
#include <vector>

#include "analysis/prepare/collectives.h"
#include "analysis/prepare/steps.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

struct Layout {
  uint32_t stages = 0;            // 0: no pipeline was seen
  std::vector<int32_t> stage_of;  // by rank index, 0 is the first; -1: unknown, everywhere without stages
  bool first_known = false;  // else which end of the pipeline comes first is a guess by the ranks' numbers
  std::vector<uint32_t> pipeline_of;  // by rank index: number of its pipeline, or store::kNone
  // By rank index: its group, inside one stage, that exchanges most often, and the one that does so less
  // often; into Capture::groups, or store::kNone. Where there is only one kind it is the tensor group if it
  // runs more than kTensorCalls collectives per step, else the data group.
  std::vector<uint32_t> tensor_group_of;
  std::vector<uint32_t> data_group_of;

  // Rank indices, ascending.
  std::vector<uint32_t> RanksOf(int32_t stage) const;
};

inline constexpr double kTensorCalls = 8;

Layout InferLayout(const store::Capture& capture, const align::Matches& matches, const CollectiveTimes& times,
                   const Steps& steps);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_STAGES_H_
