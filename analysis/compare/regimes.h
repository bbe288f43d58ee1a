// Steps in which something was slower than in the others: an episode, or now and then.
//
// A median over steps hides what holds for less than half of them. Pure.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_REGIMES_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_REGIMES_H_

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::analysis {

// Which steps are the slow ones. Empty: all steps are alike.
struct Regime {
  std::vector<uint8_t> slow;
  bool split() const { return !slow.empty(); }
  bool SlowAt(size_t step) const { return step < slow.size() && slow[step] != 0; }
};

// Cuts a series (one value per step, larger is slower) in two levels, where their distance is at least
// `least` and far beyond what neighbouring steps differ by: either two heaps with a gap between them,
// wherever their steps lie, or one run of steps. Needs 5 steps.
Regime FindRegime(std::span<const double> series, double least);

// Only as one run up to either end of the series or between: what has a begin.
Regime FindShift(std::span<const double> series, double least);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_REGIMES_H_
