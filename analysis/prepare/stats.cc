#include "analysis/prepare/stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/split_mix.h"

namespace lockstep::analysis {
namespace {

constexpr int kDraws = 200;
// Neighbouring steps are alike (a warm GPU stays warm), so they are drawn in blocks.
constexpr size_t kBlock = 5;

}  // namespace

double ScaledMad(std::vector<double> values) {
  const double middle = MedianInPlace(std::span<double>(values));
  for (double& v : values) v = std::fabs(v - middle);
  return 1.4826 * MedianInPlace(std::span<double>(values));
}

int64_t PercentileInPlace(std::span<int64_t> values, double q) {
  if (values.empty()) return 0;
  const auto place = static_cast<size_t>(std::ceil(q * static_cast<double>(values.size())));
  const size_t k = std::min(values.size() - 1, place == 0 ? 0 : place - 1);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(k), values.end());
  return values[k];
}

namespace {

// The sum of one resample.
double Draw(std::span<const double> per_step, SplitMix& random) {
  const size_t n = per_step.size();
  // Blocks need at least 20 steps; fewer steps are drawn one by one.
  const size_t block = n >= 4 * kBlock ? kBlock : 1;
  double sum = 0;
  size_t taken = 0;
  while (taken < n) {
    const size_t first = random.Next() % n;
    for (size_t i = 0; i < block && taken < n; ++i, ++taken) sum += per_step[(first + i) % n];
  }
  return sum;
}

// Means of resamples of each part, sorted.
std::vector<double> Resample(std::span<const double> part, std::span<const double> rest = {}) {
  SplitMix random(0x10C57EB5);
  std::vector<double> means(kDraws);
  for (double& mean : means) {
    const double sum = Draw(part, random) + Draw(rest, random);
    mean = sum / static_cast<double>(part.size() + rest.size());
  }
  std::sort(means.begin(), means.end());
  return means;
}

}  // namespace

Interval95 BootstrapMean(std::span<const double> per_step) { return BootstrapMean(per_step, {}); }

Interval95 BootstrapMean(std::span<const double> per_step, std::span<const uint8_t> is_affected) {
  if (per_step.empty()) return {0, 0};
  std::vector<double> affected, others;
  for (size_t k = 0; k < per_step.size(); ++k)
    (is_affected.empty() || is_affected[k] != 0 ? affected : others).push_back(per_step[k]);
  const std::vector<double> means = Resample(affected, others);
  return {means[static_cast<size_t>(kDraws * 0.025)], means[static_cast<size_t>(kDraws * 0.975) - 1]};
}

double BootstrapFractionAbove(std::span<const double> per_step, double threshold) {
  if (per_step.empty()) return 0;
  const std::vector<double> means = Resample(per_step);
  const auto above = means.end() - std::upper_bound(means.begin(), means.end(), threshold);
  return static_cast<double>(above) / kDraws;
}

}  // namespace lockstep::analysis
