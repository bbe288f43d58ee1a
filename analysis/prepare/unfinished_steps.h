// Finds the last steps of a window whose device work the records lack. A host that runs ahead has launched
// it, but the device would have run it after the end of the window.
#ifndef LOCKSTEP_ANALYSIS_PREPARE_UNFINISHED_STEPS_H_
#define LOCKSTEP_ANALYSIS_PREPARE_UNFINISHED_STEPS_H_

#include <cstddef>
#include <vector>

#include "analysis/prepare/launches.h"
#include "analysis/prepare/step_marks.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// A step with less device work than this share of the median is a fragment at the edge of the window
// (tb_plugin's rule).
inline constexpr double kStub = 0.8;

// Returns the index of the first step from which on no step has all of its device work; marks.size() if the
// last one has. A step lacks work if it is a stub, or if more of its launches have no device activity than
// random losses explain. `marks` are the steps of `rank` in order of time, with their activities counted.
size_t FirstUnfinished(const capture::RankData& rank, const CallIndex& calls,
                       const std::vector<StepMark>& marks);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_PREPARE_UNFINISHED_STEPS_H_
