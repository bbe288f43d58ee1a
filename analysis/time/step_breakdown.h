// report.json's `step_breakdown`: each moment of a step counts for the first kind that is active in it.
#ifndef LOCKSTEP_ANALYSIS_TIME_STEP_BREAKDOWN_H_
#define LOCKSTEP_ANALYSIS_TIME_STEP_BREAKDOWN_H_

#include <vector>

#include "analysis/prepare/steps.h"
#include "analysis/time/intervals.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// The order of the kinds is: kernels, copies, sets, communication, runtime calls, data loader, CPU operators.
// Each kind gets only time that the previous kinds left. `other` is the rest, so all of them sum to the step.
struct StepBreakdown {
  Nanos kernel, memcpy, memset, communication, runtime, dataloader, cpu_exec, other;
  Nanos Total() const {
    return kernel + memcpy + memset + communication + runtime + dataloader + cpu_exec + other;
  }
};

// The time in which each kind is active.
struct StepKinds {
  IntervalSet<HostTime> kernel, memcpy, memset, communication, runtime, dataloader, cpu_exec;
};
StepKinds KindsOf(const capture::Capture& capture, const capture::RankData& rank);
// The times in which the host is in operators or ranges of the data loader: StepKinds::dataloader.
IntervalSet<HostTime> LoaderTimes(const capture::Capture& capture, const capture::RankData& rank);

// The slot of each used step: from the previous step's end (or its range's start) to the end of the range or
// of the work launched in it. Slots are disjoint and in order.
std::vector<HostInterval> StepIntervals(const RankSteps& steps);

// Returns one breakdown per slot.
std::vector<StepBreakdown> BreakDown(const StepKinds& kinds, const std::vector<HostInterval>& slots);

// Mean per step.
StepBreakdown MeanOf(const std::vector<StepBreakdown>& steps);
StepBreakdown BreakDownSteps(const capture::Capture& capture, const capture::RankData& rank,
                             const RankSteps& steps);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_TIME_STEP_BREAKDOWN_H_
