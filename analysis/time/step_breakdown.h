// A step's time given to the first of its kinds that was going on: report.json's `step_breakdown`.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_STEP_BREAKDOWN_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_STEP_BREAKDOWN_H_

#include <vector>

#include "analysis/prepare/steps.h"
#include "analysis/time/intervals.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// The kinds take from what the ones before them left: kernels, copies, sets, communication, runtime calls,
// data loader, CPU operators; `other` is the rest, so all of them sum to the step.
struct StepBreakdown {
  Nanos kernel, memcpy, memset, communication, runtime, dataloader, cpu_exec, other;
  Nanos Total() const {
    return kernel + memcpy + memset + communication + runtime + dataloader + cpu_exec + other;
  }
};

// When something of each kind was going on.
struct StepKinds {
  IntervalSet<HostTime> kernel, memcpy, memset, communication, runtime, dataloader, cpu_exec;
};
StepKinds KindsOf(const store::Capture& capture, const store::RankData& rank);

// Each used step: from the previous one's end (or its range's start) to the end of the range or of the work
// launched in it. Disjoint, in order.
std::vector<HostInterval> StepSlots(const RankSteps& steps);

// One for each slot.
std::vector<StepBreakdown> BreakDown(const StepKinds& kinds, const std::vector<HostInterval>& slots);

// Mean per step.
StepBreakdown MeanOf(const std::vector<StepBreakdown>& steps);
StepBreakdown BreakDownSteps(const store::Capture& capture, const store::RankData& rank,
                             const RankSteps& steps);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_STEP_BREAKDOWN_H_
