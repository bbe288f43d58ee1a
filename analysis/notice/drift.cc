#include "analysis/notice/drift.h"

#include <algorithm>
#include <cmath>

namespace lockstep::analysis {
namespace {

// A growth that chance explains with a probability below exp(-30) = 1e-13 is noticed. With one excursion of a
// sum per value, a month of 1,024 ranks and one step per second has 2.7e9 of them. The rest is for what the
// bound does not cover: the noise is estimated, and may change.
constexpr double kLogOdds = 30;
constexpr double kSmallestGrowth = 0.04;
// Values are clipped at this multiple of the level's growth.
constexpr double kClip = 2;
// An event that n values did not show may have a probability of up to kUnseen / n. It is never taken to be
// rarer than this, so that some slow steps in a row are not an alarm.
constexpr double kUnseen = 4;
constexpr double kLeastUnseen = 0.001;
constexpr double kLargestValue = 1000;
// The mean may be wrong by so many of its standard errors.
constexpr double kMeanErrors = 6;
constexpr size_t kFirst = 32;
constexpr uint64_t kLeastLearned = 64;
constexpr uint64_t kLeastBlocks = 8;
constexpr double kLeastVariance = 1e-12;
constexpr double kNearLongest = 0.7;
constexpr double kLargestCorrelation = 0.998;
constexpr double kFewIndependent = 8;
// Older values are forgotten exponentially.
constexpr uint64_t kMemory = uint64_t{1} << 17;
constexpr float kKeptLargest = 0.9f;
constexpr size_t kMostPending = 4096;
constexpr double kRecentShare = 1.0 / 16;
constexpr uint32_t kRecovered = 16;

// The mean of max(x, 0)^3 of a standard Gaussian variable is sqrt(2 / pi). Its estimate from n values is
// wrong by at most kCubeErrors / sqrt(n), which is two standard errors.
constexpr double kGaussianCube = 0.798;
constexpr double kCubeErrors = 5.2;

constexpr int kHalvings = 20;  // leave an error of 1e-6 of the range

double F(double y) { return std::expm1(y) - y; }
double G(double y) { return F(y) - y * y / 2; }

}  // namespace

double Drift::Growth(size_t level) { return kSmallestGrowth * static_cast<double>(1u << level); }

double Drift::Clipped(size_t level, double deviation) {
  const double most = kClip * Growth(level);
  return std::clamp(deviation, -most, most);
}

double Drift::MeanOf(size_t level) const {
  return learned_ == 0 ? 0 : levels_[level].total / static_cast<double>(learned_);
}

double Drift::Excess(double value) const {
  return Clipped(kLevels - 1, value - center_) - MeanOf(kLevels - 1);
}

double Drift::usual() const { return has_center_ ? center_ + MeanOf(kLevels - 1) : 0; }

std::optional<Drift::Alarm> Drift::Add(double value) {
  if (std::isnan(value)) return std::nullopt;
  value = std::clamp(value, -kLargestValue, kLargestValue);
  if (!has_center_) {
    pending_.push_back(static_cast<float>(value));
    if (pending_.size() == kFirst) Begin();
    return std::nullopt;
  }
  if (grown_) {
    Watch(value);
    return std::nullopt;
  }
  return Test(value);
}

void Drift::Begin() {
  std::vector<float> sorted = pending_;
  std::nth_element(sorted.begin(), sorted.begin() + kFirst / 2, sorted.end());
  center_ = sorted[kFirst / 2];
  has_center_ = true;
  LearnPending();
}

void Drift::Learn(double value) {
  ++learned_;
  for (size_t level = 0; level < kLevels; ++level) {
    Level& test = levels_[level];
    const double x = Clipped(level, value - center_);
    test.total += x;
    const double mean = MeanOf(level);
    for (size_t i = 0; i < kBlockSizes; ++i) {
      Blocks& blocks = test.blocks[i];
      blocks.sum += static_cast<float>(x);
      if (learned_ % (uint64_t{1} << i) != 0) continue;
      blocks.squares += static_cast<double>(blocks.sum) * blocks.sum;
      const double above = blocks.sum - std::ldexp(mean, static_cast<int>(i));
      blocks.largest = std::max(blocks.largest, static_cast<float>(std::fabs(above)));
      if (above > 0) blocks.cubes += above * above * above;
      blocks.sum = 0;
    }
  }
  if (learned_ < kMemory) return;
  learned_ /= 2;
  next_update_ = learned_;
  for (Level& test : levels_) {
    test.total /= 2;
    for (Blocks& blocks : test.blocks) {
      blocks.largest *= kKeptLargest;
      blocks.squares /= 2;
      blocks.cubes /= 2;
    }
  }
}

void Drift::LearnPending() {
  for (const float value : pending_) Learn(value);
  pending_.clear();
  if (learned_ >= next_update_) UpdateLimits();
}

void Drift::UpdateLimits() {
  next_update_ = learned_ + std::max<uint64_t>(learned_ / 16, 8);
  if (learned_ < kLeastLearned) return;
  // The first values were not typical.
  if (std::fabs(MeanOf(0)) > Growth(0)) {
    *this = Drift();
    return;
  }
  for (size_t level = 0; level < kLevels; ++level) UpdateLimit(level);
}

Drift::Noise Drift::NoiseOf(size_t level) const {
  const Level& test = levels_[level];
  const double mean = MeanOf(level);
  const auto n = static_cast<double>(learned_);
  Noise noise;
  double longest = 0;  // variance of a sum, per value
  for (size_t i = 0; i < kBlockSizes; ++i) {
    const auto m = static_cast<double>(1u << i);
    const double blocks = std::floor(n / m);
    if (blocks < static_cast<double>(kLeastBlocks)) break;
    const double variance = std::max(test.blocks[i].squares / blocks - m * m * mean * mean, kLeastVariance);
    const double deviation = std::sqrt(variance);
    const double gaussian = (kGaussianCube - kCubeErrors / std::sqrt(blocks)) * variance * deviation;
    noise.sums[noise.sizes++] = {.m = m,
                                 .variance = variance,
                                 .largest = std::max<double>(test.blocks[i].largest, deviation),
                                 .cubes = std::max(test.blocks[i].cubes / blocks - gaussian, 0.0)};
    longest = std::max(longest, variance / m);
  }
  // Longer sums than the correlation tell nothing more, and their bound is weaker.
  for (size_t i = 0; i < noise.sizes; ++i) {
    if (noise.sums[i].variance / noise.sums[i].m < kNearLongest * longest) continue;
    noise.sizes = i + 1;
    break;
  }
  // A correlation that is longer than the longest sums is that of an autoregressive process. Estimates of it
  // from n values are too small by about 4 / n, and vary by sqrt((1 - r^2) / n).
  const double one = noise.sums[0].variance;
  const double two = test.blocks[1].squares / std::floor(n / 2) - 4 * mean * mean;
  const double seen = std::clamp(two / (2 * one) - 1, 0.0, kLargestCorrelation);
  const double correlation =
      std::min(seen + 4 / n + 2 * std::sqrt((1 - seen * seen) / n), kLargestCorrelation);
  const double factor = (1 + correlation) / (1 - correlation);
  const double few = 1 + kFewIndependent * factor / n;
  noise.long_variance = std::max(longest, one * factor) * few * few;
  return noise;
}

void Drift::UpdateLimit(size_t level) {
  Level& test = levels_[level];
  const double clip = kClip * Growth(level);
  const auto n = static_cast<double>(learned_);
  const Noise noise = NoiseOf(level);
  test.k = Growth(level) / 2 + kMeanErrors * std::sqrt(noise.long_variance / n);
  test.limit = 0;
  if (test.k >= clip / 2) return;  // so noisy that chance explains this growth
  double unseen = clip;
  std::array<double, kBlockSizes> rates;
  for (size_t i = 0; i < noise.sizes; ++i) {
    const Sums& s = noise.sums[i];
    unseen = std::max(unseen, s.largest);
    rates[i] = s.cubes / (s.m * s.largest * s.largest * s.largest);
  }
  const double unseen_rate = std::max(kUnseen / n, kLeastUnseen);
  const auto exceeds = [&](double t) {
    double outliers = 0;
    for (size_t i = 0; i < noise.sizes; ++i)
      outliers = std::max(outliers, rates[i] * G(noise.sums[i].largest * t));
    return noise.long_variance * t * t / 2 + outliers + unseen_rate * F(unseen * t) > test.k * t;
  };
  double low = 0, high = 100 / clip;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (exceeds(middle) ? high : low) = middle;
  }
  if (low > 0) test.limit = kLogOdds / low;
}

std::optional<Drift::Alarm> Drift::Test(double value) {
  pending_.push_back(static_cast<float>(value));
  bool some = false;
  std::optional<Alarm> alarm;
  for (size_t level = 0; level < kLevels; ++level) {
    Level& test = levels_[level];
    if (test.limit == 0) continue;
    test.cusum += Clipped(level, value - center_) - MeanOf(level) - test.k;
    if (test.cusum <= 0) {
      test.Restart();
      continue;
    }
    some = true;
    ++test.values;
    test.sum += Excess(value);
    // Of several tests, the one with the longest history shows the begin best.
    if (test.cusum > test.limit && (!alarm || test.values > alarm->values))
      alarm = Alarm{test.values, test.sum / static_cast<double>(test.values)};
  }
  if (alarm) {
    grown_ = Grown{.growth = alarm->growth, .recent = alarm->growth};
    pending_.clear();
    for (Level& test : levels_) test.Restart();
    return alarm;
  }
  if (!some || pending_.size() >= kMostPending) LearnPending();
  return std::nullopt;
}

void Drift::Watch(double value) {
  grown_->recent += kRecentShare * (Excess(value) - grown_->recent);
  grown_->values_below = grown_->recent < grown_->growth / 2 ? grown_->values_below + 1 : 0;
  if (grown_->values_below >= kRecovered) grown_.reset();
}

}  // namespace lockstep::analysis
