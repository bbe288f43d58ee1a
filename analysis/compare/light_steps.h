// Steps that hold less of some work for everybody: a shorter batch, nothing to log, no evaluation.
//
// The median over steps is what most of them take. Where the others take clearly less, on the middle rank
// too, an ideal step made of medians would be longer than what was seen. What everybody did in less time was
// less work. Steps that take everybody longer are not the reverse of it: that is what a fault of the whole
// job looks like. Pure.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_LIGHT_STEPS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_LIGHT_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::analysis {

// What a unit of a class took in a step, or idled before it began, in nanoseconds.
struct StepValue {
  int32_t step;
  double ns;
};

// What a class usually takes, over all steps and ranks, and how much one value varies from step to step: a
// robust sigma.
struct Usual {
  double ns, sigma;
  double least_share;  // of `ns`: a difference of less is none
};

// The steps in which the middle one of the class's values (of an even number the larger) is clearly below the
// usual, ascending, with that value. One value per step of each rank or group: the more there are, the
// smaller a difference is told from chance. Reorders `values`.
std::vector<StepValue> FindLightSteps(std::span<StepValue> values, const Usual& usual);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_LIGHT_STEPS_H_
