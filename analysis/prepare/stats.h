// Statistics for few samples: robust spread, and intervals by resampling with a fixed seed.
#ifndef LOCKSTEP_ANALYSIS_PREPARE_STATS_H_
#define LOCKSTEP_ANALYSIS_PREPARE_STATS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/median.h"

namespace lockstep::analysis {

// A standard deviation that a few outliers cannot change: 1.4826 times the median distance from the median.
double ScaledMad(std::vector<double> values);

// Nearest-rank percentile, q in 0..1. Reorders `values`. Returns 0 if there are none.
int64_t PercentileInPlace(std::span<int64_t> values, double q);

struct Interval95 {
  double low;
  double high;
};
// Interval of the mean over steps, by a block bootstrap of 200 draws. Equal input gives equal intervals. For
// a single step, both ends are its value.
Interval95 BootstrapMean(std::span<const double> per_step);

// The same for a value that differs between affected and other steps. Every draw has as many affected steps
// as `per_step`, so that the interval does not contain the chance of how often they occur. `is_affected`: by
// step; empty: all steps are alike.
Interval95 BootstrapMean(std::span<const double> per_step, std::span<const uint8_t> is_affected);

// Share of the first kind of resamples whose mean exceeds `threshold`.
double BootstrapFractionAbove(std::span<const double> per_step, double threshold);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_PREPARE_STATS_H_
