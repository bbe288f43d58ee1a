#include "analysis/compare/regimes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/prepare/stats.h"

namespace lockstep::analysis {
namespace {

constexpr size_t kLeastForRegime = 5;
// Two clusters of values lie at least this many sigmas apart between their edges, and between their middles.
constexpr double kGapSigmas = 4.0;
constexpr double kClusterSigmas = 7.0;
// The noise within two clusters counts more with few steps, by this over the number of steps. Noise alone is
// then divided as rarely as by the difference of neighbours (1 in 100 series of 5 steps, 1 in 250 of 10).
constexpr double kFewSteps = 3.0;
// The mean of a run must differ by this many sigmas more than the best of n * n / 2 runs of pure noise.
constexpr double kRunSigmas = 2.0;
// A shift of all ranks cannot be compared with other ranks, so it must be clearer by this.
constexpr double kShiftSigmas = 1.5;
double RunSigmas(size_t n) { return kRunSigmas + std::sqrt(2 * std::log(static_cast<double>(n * n) / 2)); }
constexpr size_t kLeastRun = 3;
// Longer series are cut only at every n-th step, so that at most this many cuts remain.
constexpr size_t kMostCuts = 256;

// Spread from step to step. A level that changes only now and then hardly affects it.
double StepSigma(std::span<const double> series) {
  std::vector<double> jumps;
  for (size_t i = 1; i < series.size(); ++i) jumps.push_back(std::fabs(series[i] - series[i - 1]));
  return 1.4826 * Median(std::move(jumps)) / std::sqrt(2.0);
}

// Standard deviation around the two levels. It is larger if neighbouring steps are alike, because drift also
// makes runs.
double RestSigma(std::span<const double> series, const Regime& regime) {
  std::vector<double> levels[2];
  for (size_t i = 0; i < series.size(); ++i) levels[regime.slow[i]].push_back(series[i]);
  const double middle[2] = {Median(levels[0]), Median(levels[1])};
  double square = 0, product = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    const double rest = series[i] - middle[regime.slow[i]];
    square += rest * rest;
    if (i > 0) product += rest * (series[i - 1] - middle[regime.slow[i - 1]]);
  }
  if (square <= 0) return 0;
  const auto n = static_cast<double>(series.size());
  // If the levels are fitted to few steps, these steps look less alike than they are.
  const double alike = std::clamp(product / square + 1 / n, 0.0, 0.9);
  return std::sqrt(square / n * (1 + alike) / (1 - alike));
}

// Standard deviation around the middles of two clusters. It is larger with few steps, because the cut was
// chosen where they lie furthest apart.
double ClusterSigma(std::span<const double> series, const Regime& regime) {
  const auto n = static_cast<double>(series.size());
  return RestSigma(series, regime) * std::sqrt(n / (n - 2)) * (1 + kFewSteps / (n - 2));
}

Regime TwoClusters(std::span<const double> series, double least, double sigma) {
  std::vector<double> sorted(series.begin(), series.end());
  std::sort(sorted.begin(), sorted.end());
  size_t cut = 0;
  double gap = 0;
  for (size_t k = 1; k < sorted.size(); ++k) {
    if (sorted[k] - sorted[k - 1] <= gap) continue;
    gap = sorted[k] - sorted[k - 1];
    cut = k;
  }
  if (cut == 0 || gap < least / 2) return {};
  const auto middle = [&](size_t from, size_t to) {
    return Median({sorted.begin() + static_cast<std::ptrdiff_t>(from),
                   sorted.begin() + static_cast<std::ptrdiff_t>(to)});
  };
  const double apart = middle(cut, sorted.size()) - middle(0, cut);
  if (apart < least) return {};
  Regime out;
  for (double v : series) out.slow.push_back(v >= sorted[cut] ? 1 : 0);
  const auto stands_out = [&](double noise) {
    return gap >= kGapSigmas * noise && apart >= kClusterSigmas * noise;
  };
  if (stands_out(sigma)) return out;
  // If levels change at every other step, neighbours differ by the levels. Then the noise within the clusters
  // decides.
  const bool several_each = std::min(cut, sorted.size() - cut) >= 2;
  return several_each && stands_out(ClusterSigma(series, out)) ? out : Regime{};
}

Regime BestRun(std::span<const double> series, double least, double sigma, double sigmas) {
  const size_t n = series.size();
  std::vector<double> sums(n + 1, 0);
  for (size_t i = 0; i < n; ++i) sums[i + 1] = sums[i] + series[i];
  const size_t stride = (n + kMostCuts - 1) / kMostCuts;
  double best = 0;
  size_t best_from = 0, best_to = 0;
  bool best_is_slow = false;
  for (size_t from = 0; from + kLeastRun <= n; from += stride) {
    for (size_t to = from + kLeastRun; to <= n; to += stride) {
      const size_t in = to - from, out = n - in;
      if (out < kLeastRun) break;
      const double mean_in = (sums[to] - sums[from]) / static_cast<double>(in);
      const double mean_out = (sums[n] - sums[to] + sums[from]) / static_cast<double>(out);
      const double difference = std::fabs(mean_in - mean_out);
      const double z =
          difference * std::sqrt(static_cast<double>(in) * static_cast<double>(out) / static_cast<double>(n));
      if (difference < least || z <= best) continue;
      best = z;
      best_from = from;
      best_to = to;
      best_is_slow = mean_in > mean_out;
    }
  }
  if (best < sigmas * sigma || best == 0) return {};
  Regime regime;
  for (size_t i = 0; i < n; ++i)
    regime.slow.push_back((i >= best_from && i < best_to) == best_is_slow ? 1 : 0);
  if (best < sigmas * RestSigma(series, regime)) return {};
  return regime;
}

}  // namespace

Regime FindRegime(std::span<const double> series, double least) {
  if (series.size() < kLeastForRegime || least <= 0) return {};
  const double sigma = StepSigma(series);
  Regime clusters = TwoClusters(series, least, sigma);
  return clusters.split() ? clusters : BestRun(series, least, sigma, RunSigmas(series.size()));
}

Regime FindChangePoint(std::span<const double> series, double least) {
  if (series.size() < kLeastForRegime || least <= 0) return {};
  return BestRun(series, least, StepSigma(series), RunSigmas(series.size()) + kShiftSigmas);
}

}  // namespace lockstep::analysis
