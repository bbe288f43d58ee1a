// For tests: jobs so plain that a few lines simulate them. Kernels one after the other, and an all-reduce of
// all ranks at the end of each step; no host records. What if, the split and the ideal step are then sums and
// maxima, which Compute() takes from the lengths alone, by the definitions in docs/analysis.md. Lengths are
// microseconds; results are nanoseconds.
#ifndef LOCKSTEP_AGGREGATOR_REPORT_PLAIN_JOB_H_
#define LOCKSTEP_AGGREGATOR_REPORT_PLAIN_JOB_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "capture/model/capture.h"
#include "report/model.h"

namespace lockstep::report {

inline constexpr int kGapUs = 3;
inline constexpr int kFirstStep = 50;  // the number that the first used one carries

// Step 0 leads into the others and is not used.
struct PlainJob {
  int ranks = 4, steps = 9, kernels = 5;
  std::vector<std::vector<std::vector<int>>> lengths;  // [rank][step][kernel]
  std::vector<int> transfers;                          // [step]
  int used() const { return steps - 1; }
};

PlainJob Uniform(int ranks, int used, int kernels);
// 3 to 10 ranks and 6 to 10 used steps whose every kernel and transfer differs; rank 1 is slower.
PlainJob Noisy(uint64_t seed);

// Somebody whose kernels all take longer in some of the used steps.
struct Culprit {
  size_t rank;
  int extra;
  std::vector<size_t> steps;
};
PlainJob With(PlainJob job, const std::vector<Culprit>& culprits);

store::Capture CaptureOf(const PlainJob& job);

// ---- the same job computed

using Lengths = std::vector<std::vector<std::vector<double>>>;  // [rank][used step][kernel]
Lengths LengthsOf(const PlainJob& job);
std::vector<double> TransfersOf(const PlainJob& job);  // [used step]

// Of each used step.
std::vector<double> StepsOf(const PlainJob& job, const Lengths& lengths,
                            const std::vector<double>& transfers);

// The ranks' kernels scaled to what is typical: of the ranks that are not `without`.
void Scale(Lengths& lengths, const Lengths& observed, const std::vector<size_t>& ranks,
           const std::vector<size_t>& without);

struct Computed {
  std::vector<double> steps, levelled;
  double ideal = 0;
  std::vector<double> gains, bounds;      // by rank
  std::vector<std::vector<double>> lost;  // [rank][step]: integral over the way from typical to observed
  double critical_communication = 0;
  double ideal_compute = 0, ideal_transfer = 0;
};
Computed Compute(const PlainJob& job);

// By how much each used step gets shorter without the culprits whose bits are set.
std::vector<double> GainOf(const PlainJob& healthy, const std::vector<Culprit>& culprits, unsigned fixed);

double Sum(const std::vector<double>& v);
double MeanOf(const std::vector<double>& v);
double MiddleOf(std::vector<double> v);

// ---- resampling, all of it

// Means of every resample of the steps there is: at most 7 steps.
std::vector<double> AllResamples(const std::vector<double>& per_step);
// Of them, the part above.
double PartAbove(const std::vector<double>& per_step, double floor);
// Whether these are the 2.5 % and 97.5 % quantiles of `scale` times the resamples' means, as well as 200
// draws tell them.
void ExpectInterval(const Range& said, const std::vector<double>& per_step, double scale = 1);

}  // namespace lockstep::report

#endif  // LOCKSTEP_AGGREGATOR_REPORT_PLAIN_JOB_H_
