// Finds steps that hold less of some work for every rank: a shorter batch, no logging, no evaluation.
//
// The median over steps is the time of most steps. The other steps may take clearly less, even on the middle
// rank. An ideal step made of medians would then be longer than the observed step. If all ranks took less
// time, they had less work. The reverse does not hold: steps that are longer on all ranks may show a fault of
// the whole job. Pure.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_LIGHT_STEPS_H_
#define LOCKSTEP_ANALYSIS_COMPARE_LIGHT_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::analysis {

// Time of a unit of a class in a step, or its idle time before it, in nanoseconds.
struct StepValue {
  int32_t step;
  double ns;
};

// The usual time of a class, over all steps and ranks, and the robust sigma of one value from step to step.
struct Usual {
  double ns, sigma;
  double least_share;  // share of `ns`; smaller differences do not count
};

// Returns the steps, ascending, in which the middle one of the class's values is clearly below the usual
// time. (Of an even number, it is the larger one.) Each returned step has that value. `values` has one value
// per step of each rank or group. With more values, smaller differences suffice. Reorders `values`.
std::vector<StepValue> FindLightSteps(std::span<StepValue> values, const Usual& usual);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_COMPARE_LIGHT_STEPS_H_
