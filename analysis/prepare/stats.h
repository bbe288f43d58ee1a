// Few samples, honest numbers: robust spread, and intervals by resampling with a fixed seed.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_STATS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_STATS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/median.h"

namespace lockstep::analysis {

// Standard deviation that a few outliers cannot move: 1.4826 times the median distance from the median.
double RobustSigma(std::vector<double> values);

// Nearest-rank percentile, q in 0..1. Reorders. 0 for none.
int64_t PercentileInPlace(std::span<int64_t> values, double q);

struct Interval95 {
  double low;
  double high;
};
// Of the mean over steps: block bootstrap, 200 draws, the same for the same input. A single step has no
// interval beyond itself.
Interval95 BootstrapMean(std::span<const double> per_step);

// Part of such resamples whose mean is above `threshold`.
double BootstrapFractionAbove(std::span<const double> per_step, double threshold);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_STATS_H_
