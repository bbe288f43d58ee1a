// Drift notices that a noisy value has grown for good, with a stated rate of false alarms.
//
// It runs several CUSUM tests, each for another growth (Page, "Continuous inspection schemes", 1954). The sum
// of x - mean - k is kept at 0 or above, and an alarm is a sum above the limit. Values are clipped, so that
// a single one cannot exceed it. The limit follows from the noise that the value has shown:
//
//   P(the sum of a sequence without growth ever exceeds h) <= exp(-t h), where t solves psi(t) = k t,
//   psi(t) = W t^2 / 2  +  max over m of C_m / (m B_m^3) g(B_m t)  +  c / n f(U t),
//   f(y) = exp(y) - 1 - y,  g(y) = f(y) - y^2 / 2
//
// - W is the variance of long sums per value. Alone, it is the bound for Gaussian noise.
// - The second term is the tail of the noise. Of sums of m values, B_m is the largest deviation. C_m is the
//   mean cube of the deviations above the mean, beyond that of a Gaussian variable. As in Bennett's
//   inequality (1962) for the square, a variable of at most B with the mean cube C adds at most C / B^3 g(B
//   t). m goes up to the length of the correlation.
// - The last term allows for events that n values have not shown, or only one in a thousand. U is the largest
//   value that the clipping lets through, or that was seen.
//
// The limit is h = kLogOdds / t.
//
// drift_bench measures the false alarms for ten kinds of noise; docs/noticing.md has the results.
#ifndef LOCKSTEP_ANALYSIS_NOTICE_DRIFT_H_
#define LOCKSTEP_ANALYSIS_NOTICE_DRIFT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::analysis {

// One thread at a time.
class Drift {
 public:
  struct Alarm {
    uint64_t values = 0;  // number of values since the growth began, with the last one
    double growth = 0;    // mean of these values, clipped, above the mean before
  };

  // Adds a value, whose unit is a share of a training step: growths from 4 % of one are looked for. Returns
  // the alarm when the growth is beyond chance, and then nothing until the value is as before again.
  std::optional<Alarm> Add(double value);

  // Returns whether the value has grown, and is not as before again.
  bool grown() const { return grown_.has_value(); }
  // Mean of the values without the growth. 0 before the first alarm could be.
  double usual() const;

 private:
  static constexpr size_t kLevels = 5;
  static constexpr size_t kBlockSizes = 9;  // 1, 2, 4 … 256

  // The sums of blocks of one size.
  struct Blocks {
    float sum = 0;  // of the current block
    float largest = 0;
    double squares = 0;
    double cubes = 0;  // of the deviations above the mean
  };
  // The test for one growth.
  struct Level {
    double total = 0;  // of the learned values
    std::array<Blocks, kBlockSizes> blocks;
    double k = 0;      // subtracted from each value
    double limit = 0;  // 0: not known yet
    double cusum = 0;
    // Since the sum was 0.
    uint64_t values = 0;
    double sum = 0;

    void Restart() {
      cusum = sum = 0;
      values = 0;
    }
  };
  struct Grown {
    double growth = 0;
    double recent = 0;  // exponential mean of the growth
    uint32_t values_below = 0;
  };

  // Sums of m values.
  struct Sums {
    double m = 0, variance = 0, largest = 0;
    double cubes = 0;  // mean cube of positive deviations, beyond that of a Gaussian variable
  };
  struct Noise {
    std::array<Sums, kBlockSizes> sums;
    size_t sizes = 0;
    double long_variance = 0;  // of the sum of very many values, per value
  };

  static double Growth(size_t level);
  static double Clipped(size_t level, double deviation);

  void Begin();
  void Learn(double value);
  void LearnPending();
  void UpdateLimits();
  void UpdateLimit(size_t level);
  double MeanOf(size_t level) const;
  // Returns the value above the usual one, clipped so that a single one does not decide.
  double Excess(double value) const;
  Noise NoiseOf(size_t level) const;
  std::optional<Alarm> Test(double value);
  void Watch(double value);

  // Deviations are from the center, which is the median of the first values.
  double center_ = 0;
  bool has_center_ = false;
  uint64_t learned_ = 0;
  uint64_t next_update_ = 0;
  // Values that are not learned yet: the first ones, and those since a sum was 0 last.
  std::vector<float> pending_;
  std::array<Level, kLevels> levels_;
  std::optional<Grown> grown_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_NOTICE_DRIFT_H_
