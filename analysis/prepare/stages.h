// Infers the job's layout from its communicators: pipeline stages, tensor groups (which shard layers) and
// data groups (which replicate them).
//
// Ranks that exchange messages are one pipeline. A chain of ranks is its stages in order; a ring is its
// stages with interleaved chunks. In a step the first stage sends before it receives, and all others do the
// reverse. This shows the first stage. Messages without a direction are found by stage_exchanges.h. No stages
// are reported if pipelines differ in length, or if kernels hide their peers. Pure; any thread.
#ifndef LOCKSTEP_ANALYSIS_PREPARE_STAGES_H_
#define LOCKSTEP_ANALYSIS_PREPARE_STAGES_H_

#include <cstdint>
#include <vector>

#include "analysis/prepare/collectives.h"
#include "analysis/prepare/steps.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

struct Layout {
  uint32_t stages = 0;                // 0: no pipeline was found
  std::vector<int32_t> stage_of;      // by rank index, 0 is the first; -1: unknown, or no stages
  bool first_known = false;           // false: the first end of the pipeline is a guess by the ranks' numbers
  std::vector<uint32_t> pipeline_of;  // by rank index: number of its pipeline, or capture::kNone
  // By rank index: the rank's group inside one stage that communicates most often, and the one that does so
  // less often. Both are indices into Capture::groups, or capture::kNone. If there is only one, it is the
  // tensor group if it runs more than kTensorCalls collectives per step, and otherwise the data group.
  std::vector<uint32_t> tensor_group_of;
  std::vector<uint32_t> data_group_of;

  // Rank indices of the stage, ascending.
  std::vector<uint32_t> RanksOf(int32_t stage) const;
};

inline constexpr double kTensorCalls = 8;

Layout InferLayout(const capture::Capture& capture, const capture::Matches& matches,
                   const CollectiveTimes& times, const Steps& steps);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_PREPARE_STAGES_H_
