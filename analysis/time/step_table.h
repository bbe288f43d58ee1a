// Rows of report.json's `steps`: each step on each rank.
#ifndef LOCKSTEP_ANALYSIS_TIME_STEP_TABLE_H_
#define LOCKSTEP_ANALYSIS_TIME_STEP_TABLE_H_

#include <optional>
#include <vector>

#include "analysis/prepare/collectives.h"
#include "analysis/prepare/steps.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

struct StepOfRank {
  Nanos duration;  // from its previous step's end, or the range's start, to the end of its work
  std::optional<Nanos>
      wait;               // union of the waiting parts of its collectives; nullopt if all of them are unsplit
  Nanos self;             // duration without waiting
  Nanos overlap;          // |compute and communication| of the step's activities
  Nanos compute, active;  // unions of its compute kernels, and of all its device activity
};

// One row per used step.
std::vector<StepOfRank> TimeSteps(const capture::RankData& rank, const RankSteps& steps,
                                  const std::vector<Part>& parts);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_TIME_STEP_TABLE_H_
