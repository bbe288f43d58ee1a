// Several culprits: what fixing them together gains, who hides behind whom, and in which order to fix them.
//
// Two equal stragglers each gain nothing alone, since the other one still holds everybody back: only sets of
// fixes show it. All functions replay through `gains` (after Gains::Measure()) and are deterministic.
// Per-step values are by used step, in nanoseconds.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_FIXES_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_FIXES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/gains/gains.h"

namespace lockstep::analysis {

// All of them made typical at once.
Fix Together(std::span<const Fix> fixes);

// What each one still costs with all others fixed, per step: [fix][step].
std::vector<std::vector<double>> GainsBesideOthers(Gains& gains, std::span<const Fix> fixes);

// What fixing all of them gains, split fairly: the mean, over the orders in which they could be fixed (all
// orders of up to four, else a fixed draw of them), of what each one adds. [fix][step]; sums to the gain of
// all.
std::vector<std::vector<double>> FairShares(Gains& gains, std::span<const Fix> fixes);

struct FixSet {
  std::vector<uint32_t> entries;  // into the fixes, ascending
  std::vector<double> gain_per_step;
};
// Which to fix first: greedily the one that adds most, or, where none adds anything alone, the fewest that do
// together (in the order given, which is that of their cost). Ends where what is left adds less than `floor`
// per step. Each set holds the one before; single entries that gain more than `floor` alone are sets too.
// Largest gain first, smaller sets first among equals.
std::vector<FixSet> GreedyFixes(Gains& gains, std::span<const Fix> fixes, double floor);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_FIXES_H_
