// Finds the exchanges of two ranks that are messages between pipeline stages.
//
// Without metadata, a message looks like an exchange: both ranks run a SendRecv kernel, and both leave it
// together. Ranks that run one program have run equally many kernels before the step's first exchange. Stages
// have not: the sender has run the kernels of a pass. For stages.h. Pure; any thread.
#ifndef LOCKSTEP_ANALYSIS_PREPARE_STAGE_EXCHANGES_H_
#define LOCKSTEP_ANALYSIS_PREPARE_STAGE_EXCHANGES_H_

#include <cstdint>
#include <vector>

#include "analysis/prepare/steps.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// Two ranks of neighbouring stages.
struct StageExchange {
  uint32_t first, second;  // rank indices, ascending
  // Steps whose first exchange found the first rank ahead, minus those that found the second rank ahead. The
  // sender is ahead.
  int32_t first_ahead;
};

// Sorted by rank indices.
std::vector<StageExchange> FindStageExchanges(const capture::Capture& capture,
                                              const capture::Matches& matches, const Steps& steps);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_PREPARE_STAGE_EXCHANGES_H_
