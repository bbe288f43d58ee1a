// Finds the begin and end of each rank's training steps: from ranges named as steps, from a range that recurs
// once per step, or from the period of the launches.
#ifndef LOCKSTEP_ANALYSIS_PREPARE_STEP_MARKS_H_
#define LOCKSTEP_ANALYSIS_PREPARE_STEP_MARKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/prepare/launches.h"
#include "capture/align/clock_model.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// One step of one rank, as its host saw it.
struct StepMark {
  HostInterval host;
  std::optional<int64_t> number;  // the number in its name
  bool whole = false;             // begin, end and all device work were recorded
  bool unfinished = false;        // the window ended before its device work
  uint32_t activities = 0;        // device work launched in it; the caller fills it in
};

// Returns the index of the last step that begins at `t` or before it; -1: none.
int32_t LastStarted(const std::vector<StepMark>& marks, HostTime t);

struct MarkedSteps {
  std::vector<std::vector<StepMark>> of_rank;  // by rank index; empty for ranks without device activity
  std::string how;  // description of the marks for the user; empty for ranges named as steps
};

// Uses ranges named as steps (RangeKind::kStep). nullopt: a rank with activities has none.
std::optional<MarkedSteps> StepsFromStepRanges(const capture::Capture& capture);

// Uses ranges that recur at least three times on every rank, one after the other, with nearly all launches
// inside. Of these, it takes the longest ("train_step", "batch 17 of 500"). Names are compared without their
// numbers.
std::optional<MarkedSteps> StepsFromNamedRanges(const capture::Capture& capture,
                                                const std::vector<CallIndex>& calls);

// Uses kernels and copies that come once per period on every rank. A step begins after the longest gap that
// recurs, at the same moment of the period on every rank. At least three periods must be recorded. `clock`
// puts the ranks on one clock.
std::optional<MarkedSteps> StepsFromPeriod(const capture::Capture& capture, const capture::ClockModel& clock,
                                           const std::vector<CallIndex>& calls);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_PREPARE_STEP_MARKS_H_
