// The noise floor: how far ranks differ by chance if they are all alike.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_CHANCE_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_CHANCE_H_

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::analysis {

// The spread of a value among peers, and the limit of one peer's deviation by chance.
struct Chance {
  double middle = 0;
  double sigma = 0;  // among the peers without the quarter that takes most; with fewer than 6 peers, among
                     // the closest half
  double floor = 0;  // 99th percentile of the largest distance from the middle if all are alike
};

// If all peers are alike, the spread of the fastest three quarters bounds the deviation of the slowest one by
// chance. `per_rank`: each rank's mean over the steps. `least_sigma`: lower limit of the sigma.
Chance ChanceAmong(std::span<const double> per_rank, double least_sigma);

// 99th percentile of the top mean if the ranks' labels are permuted within each block of steps. Rows are
// ranks, columns are steps, all of one length. A block holds neighbouring steps, which are alike. The slow
// half of each block is replaced by the mirror of its fast half, so that a real straggler does not raise its
// own floor. Equal input gives an equal result.
double PermutationFloor(const std::vector<std::vector<double>>& by_rank_and_step);

// Standard error of a rank's mean over the steps, from the means of its blocks; the median over the ranks.
double StepError(const std::vector<std::vector<double>>& by_rank_and_step);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_CHANCE_H_
