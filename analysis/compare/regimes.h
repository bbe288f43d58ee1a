// Finds the steps in which a value is slower than in the others: one episode, or slow steps now and then.
//
// A median over steps hides a change that holds for less than half of them. Pure.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_REGIMES_H_
#define LOCKSTEP_ANALYSIS_COMPARE_REGIMES_H_

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::analysis {

// Flags of the slow steps. Empty: all steps are alike.
struct Regime {
  std::vector<uint8_t> slow;
  bool split() const { return !slow.empty(); }
  bool SlowAt(size_t step) const { return step < slow.size() && slow[step] != 0; }
};

// Divides a series (one value per step, larger is slower) into two levels. Their distance is at least
// `least`, and far above the difference of neighbouring steps. The levels are either two clusters of values
// with a gap between them, in any order of steps, or the slow one is one run of steps. Needs 5 steps.
Regime FindRegime(std::span<const double> series, double least);

// Finds only one run, at either end of the series or inside it: a change with a begin.
Regime FindChangePoint(std::span<const double> series, double least);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_COMPARE_REGIMES_H_
