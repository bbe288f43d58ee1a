// What chance makes of ranks that are all alike: the noise floor.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_CHANCE_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_CHANCE_H_

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::analysis {

// What one of many peers takes beyond the middle one, and what it may by chance.
struct Chance {
  double middle = 0;
  double sigma =
      0;  // among the peers but for the quarter that takes most; of fewer than 6, among the closest half
  double floor = 0;  // 99th percentile of the largest distance from the middle when all are alike
};

// The labels of the peers mean nothing when all are alike, so the spread that the fastest three quarters show
// bounds what the slowest may by chance be. `per_rank`: one mean over the steps each. `least_sigma`: no
// smaller one is believed.
Chance ChanceAmong(std::span<const double> per_rank, double least_sigma);

// 99th percentile of the top mean when, within each block of steps, the ranks' labels are permuted: rows are
// ranks, columns steps, all of one length. Blocks hold neighbouring steps, which are alike. The slow half of
// each block is replaced by the mirror of its fast half, so that a real straggler does not raise its own
// floor. The same for the same input.
double PermutedTop(const std::vector<std::vector<double>>& by_rank_and_step);

// Standard error of a rank's mean over the steps from its blocks' means, median over the ranks.
double StepError(const std::vector<std::vector<double>>& by_rank_and_step);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_CHANCE_H_
