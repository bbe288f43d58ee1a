#include "analysis/explain/chance.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "analysis/prepare/stats.h"
#include "base/split_mix.h"

namespace lockstep::analysis {
namespace {

constexpr int kDraws = 200;
constexpr uint64_t kSeed = 0x5EEDF1;
// Limit of the values of all draws together. A large job gets fewer draws, so that its floor takes at most a
// few milliseconds.
constexpr size_t kValuesPerFloor = 4'000'000;
constexpr int kLeastDraws = 50;
constexpr double kQuantile = 0.99;
constexpr size_t kMostBlocks = 10;
// With fewer peers than this, no quarter is left out.
constexpr size_t kFew = 6;
constexpr size_t kStepsPerBlock = 5;

struct Quantile {
  size_t ranks;
  double sigmas;
};
// 99 % quantile of (largest - median) / sigma without the slowest quarter, for normal peers, from 1,500 to
// 30,000 draws. With fewer than 6 peers, the spread is too uncertain for this. The error from step to step
// bounds it there.
constexpr Quantile kLargest[] = {{5, 6.5},  {6, 6.5},  {7, 5.8},  {8, 7.5},  {10, 5.9},
                                 {12, 6.3}, {16, 6.1}, {24, 5.7}, {32, 5.6}, {64, 5.5}};

double LargestSigmas(size_t ranks) {
  double sigmas = kLargest[0].sigmas;
  for (const Quantile& q : kLargest) {
    if (ranks >= q.ranks) sigmas = q.sigmas;
  }
  return sigmas;
}

size_t BlocksOf(size_t steps) {
  return std::clamp<size_t>((steps + kStepsPerBlock - 1) / kStepsPerBlock, std::min<size_t>(steps, 4),
                            kMostBlocks);
}

// Means of the blocks of one rank.
std::vector<double> BlockMeans(const std::vector<double>& steps, size_t blocks) {
  std::vector<double> means(blocks, 0);
  for (size_t b = 0; b < blocks; ++b) {
    const size_t from = b * steps.size() / blocks, to = (b + 1) * steps.size() / blocks;
    for (size_t k = from; k < to; ++k) means[b] += steps[k] / static_cast<double>(to - from);
  }
  return means;
}

// Distances from the middle. The slow half is the mirror of the fast one.
std::vector<double> Mirrored(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const double middle = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  for (double& v : values) v -= middle;
  for (size_t i = 0; i < n / 2; ++i) values[n - 1 - i] = -values[i];
  return values;
}

}  // namespace

namespace {

// Among few peers, the half that lies closest together counts as alike. Of equally close halves, it is the
// faster one, because disturbances only slow a rank down.
struct Half {
  double middle;
  double width;
};
Half ClosestHalf(const std::vector<double>& sorted, double tolerance) {
  const size_t count = std::max<size_t>(1, (sorted.size() + 1) / 2);
  Half best{0, std::numeric_limits<double>::infinity()};
  for (size_t i = 0; i + count <= sorted.size(); ++i) {
    const double width = sorted[i + count - 1] - sorted[i];
    if (width + tolerance >= best.width) continue;
    best = {std::accumulate(sorted.begin() + static_cast<std::ptrdiff_t>(i),
                            sorted.begin() + static_cast<std::ptrdiff_t>(i + count), 0.0) /
                static_cast<double>(count),
            width};
  }
  return best;
}

}  // namespace

Chance ChanceAmong(std::span<const double> per_rank, double least_sigma) {
  Chance out;
  out.sigma = least_sigma;
  std::vector<double> sorted(per_rank.begin(), per_rank.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  if (n > 0 && n < kFew) {
    const Half half = ClosestHalf(sorted, 2 * least_sigma);
    out.middle = half.middle;
    out.sigma = std::max(least_sigma, half.width / 2);
  } else if (n > 0) {
    out.middle = n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    sorted.resize(n - std::max<size_t>(1, n / 4));
    const double mean =
        std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size());
    double squares = 0;
    for (double v : sorted) squares += (v - mean) * (v - mean);
    out.sigma = std::max(least_sigma, std::sqrt(squares / static_cast<double>(sorted.size() - 1)));
  }
  out.floor = LargestSigmas(n) * out.sigma;
  return out;
}

double PermutationFloor(const std::vector<std::vector<double>>& by_rank_and_step) {
  const size_t ranks = by_rank_and_step.size();
  if (ranks < 3 || by_rank_and_step[0].size() < 2) return 0;
  const size_t blocks = BlocksOf(by_rank_and_step[0].size());
  std::vector<std::vector<double>> pool(blocks, std::vector<double>(ranks));
  for (size_t r = 0; r < ranks; ++r) {
    const std::vector<double> means = BlockMeans(by_rank_and_step[r], blocks);
    for (size_t b = 0; b < blocks; ++b) pool[b][r] = means[b];
  }
  for (auto& block : pool) block = Mirrored(std::move(block));
  const size_t values = ranks * blocks;
  const int draws = std::clamp(static_cast<int>(kValuesPerFloor / values), kLeastDraws, kDraws);
  SplitMix random(kSeed);
  std::vector<double> tops, sums(ranks);
  for (int d = 0; d < draws; ++d) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (auto& block : pool) {
      for (size_t i = ranks; i > 1; --i) std::swap(block[i - 1], block[random.Below(i)]);
      for (size_t r = 0; r < ranks; ++r) sums[r] += block[r];
    }
    tops.push_back(*std::max_element(sums.begin(), sums.end()) / static_cast<double>(blocks));
  }
  std::sort(tops.begin(), tops.end());
  return tops[static_cast<size_t>(kQuantile * static_cast<double>(tops.size() - 1))];
}

double StepError(const std::vector<std::vector<double>>& by_rank_and_step) {
  std::vector<double> errors;
  for (const auto& steps : by_rank_and_step) {
    if (steps.size() < 3) continue;
    const std::vector<double> means = BlockMeans(steps, BlocksOf(steps.size()));
    const double mean = std::accumulate(means.begin(), means.end(), 0.0) / static_cast<double>(means.size());
    double squares = 0;
    for (double m : means) squares += (m - mean) * (m - mean);
    errors.push_back(
        std::sqrt(squares / static_cast<double>(means.size() - 1) / static_cast<double>(means.size())));
  }
  return Median(std::move(errors));
}

}  // namespace lockstep::analysis
