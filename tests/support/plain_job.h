// Test helpers: jobs that are simple enough to simulate in a few lines. Each rank runs its kernels one after
// the other, and each step ends with an all-reduce of all ranks. There are no host records.
//
// What-if answers, the split and the ideal step are then sums and maxima. Compute() takes them from the
// lengths alone, by the definitions in docs/analysis/. Lengths are in microseconds, results in nanoseconds.
#ifndef LOCKSTEP_TESTS_SUPPORT_PLAIN_JOB_H_
#define LOCKSTEP_TESTS_SUPPORT_PLAIN_JOB_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "capture/model/capture.h"
#include "report/model.h"

namespace lockstep::report {

inline constexpr int kGapUs = 3;
inline constexpr int kFirstStep = 50;  // number of the first used step

// Step 0 comes before the used steps and is not used itself.
struct PlainJob {
  int ranks = 4, steps = 9, kernels = 5;
  std::vector<std::vector<std::vector<int>>> lengths;  // [rank][step][kernel]
  std::vector<int> transfers;                          // [step]
  int used() const { return steps - 1; }
};

PlainJob Uniform(int ranks, int used, int kernels);
// Returns a job of 3 to 10 ranks and 6 to 10 used steps, in which every kernel and transfer differs. Rank 1
// is slower.
PlainJob Noisy(uint64_t seed);

// A rank whose kernels all take `extra` longer in some of the used steps.
struct Culprit {
  size_t rank;
  int extra;
  std::vector<size_t> steps;
};
PlainJob With(PlainJob job, const std::vector<Culprit>& culprits);

capture::Capture CaptureOf(const PlainJob& job);

// ---- The numbers of the same job, computed

using Lengths = std::vector<std::vector<std::vector<double>>>;  // [rank][used step][kernel]
Lengths LengthsOf(const PlainJob& job);
std::vector<double> TransfersOf(const PlainJob& job);  // [used step]

// Returns the length of each used step.
std::vector<double> StepsOf(const PlainJob& job, const Lengths& lengths,
                            const std::vector<double>& transfers);

// Scales the kernels of `ranks` to typical lengths: medians over the ranks that are not in `without`.
void Scale(Lengths& lengths, const Lengths& observed, const std::vector<size_t>& ranks,
           const std::vector<size_t>& without);

struct Computed {
  std::vector<double> steps, straggler_free;
  double ideal = 0;
  std::vector<double> gains, bounds;      // by rank
  std::vector<std::vector<double>> lost;  // [rank][step]: integral over the way from typical to observed
  double critical_communication = 0;
  double ideal_compute = 0, ideal_transfer = 0;
};
Computed Compute(const PlainJob& job);

// Returns the time by which each used step gets shorter without the culprits whose bits are set.
std::vector<double> GainOf(const PlainJob& healthy, const std::vector<Culprit>& culprits, unsigned fixed);

double Sum(const std::vector<double>& v);
double MeanOf(const std::vector<double>& v);
double MiddleOf(std::vector<double> v);

// ---- Resampling, with every possible resample

// Returns the means of all resamples of the steps. At most 7 steps. The affected steps, and all others, are
// drawn among themselves; no affected steps: all steps are alike.
std::vector<double> AllResamples(const std::vector<double>& per_step,
                                 const std::vector<size_t>& affected = {});
// Returns the fraction of these means above `floor`.
double PartAbove(const std::vector<double>& per_step, double floor);
// Expects that these are the 2.5 % and 97.5 % quantiles of `scale` times the resamples' means, within the
// error of 200 draws.
void ExpectInterval(const Range& reported, const std::vector<double>& per_step, double scale = 1,
                    const std::vector<size_t>& affected = {});

}  // namespace lockstep::report

#endif  // LOCKSTEP_TESTS_SUPPORT_PLAIN_JOB_H_
