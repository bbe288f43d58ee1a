// Several culprits: the gain of fixing them together, culprits that hide others, and the order in which to
// fix them.
//
// Each of two equal stragglers gains nothing alone, because the other one still delays all ranks. Only sets
// of fixes show their gain. All functions replay through `gains` (after Gains::Measure()) and are
// deterministic. Per-step values are by used step, in nanoseconds.
#ifndef LOCKSTEP_ANALYSIS_GAINS_FIXES_H_
#define LOCKSTEP_ANALYSIS_GAINS_FIXES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/gains/gains.h"

namespace lockstep::analysis {

// One fix that makes the targets of all `fixes` typical at once.
Fix Together(std::span<const Fix> fixes);

// The cost that each fix removes after all others are made: [fix][step], per step.
std::vector<std::vector<double>> MarginalGains(Gains& gains, std::span<const Fix> fixes);

// The gain of making all fixes, divided fairly: for each one, the mean of its contribution over the orders of
// fixing. Takes all orders of up to four fixes, and otherwise a fixed sample of them. [fix][step]; sums to
// the gain of all.
std::vector<std::vector<double>> ShapleyValues(Gains& gains, std::span<const Fix> fixes);

struct FixSet {
  std::vector<uint32_t> entries;  // indices into the fixes, ascending
  std::vector<double> gain_per_step;
};
// The order of fixing, as sets. Greedily adds the fix with the largest additional gain. If none gains alone,
// it adds the smallest set with a joint gain, in the order given, which is that of cost. Ends when the rest
// adds less than `floor` per step. Each set contains the previous one. Single fixes that gain more than
// `floor` alone are sets too. Sets are ordered by gain, largest first; smaller sets come first among equals.
std::vector<FixSet> GreedyFixes(Gains& gains, std::span<const Fix> fixes, double floor);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_GAINS_FIXES_H_
