// A step's time given to the first of its kinds that was going on: report.json's `step_breakdown`.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_STEP_BREAKDOWN_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_STEP_BREAKDOWN_H_

#include "aggregator/analysis/steps.h"
#include "aggregator/store/capture.h"

namespace lockstep::analysis {

// Mean per step. The kinds take from what the ones before them left: kernels, copies, sets, communication, runtime calls, data
// loader, CPU operators; `other` is the rest, so all of them sum to the step.
struct StepBreakdown {
  Nanos kernel, memcpy, memset, communication, runtime, dataloader, cpu_exec, other;
};
StepBreakdown BreakDownSteps(const store::Capture& capture, const store::RankData& rank, const RankSteps& steps);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_STEP_BREAKDOWN_H_
