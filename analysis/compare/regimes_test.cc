#include "analysis/compare/regimes.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

std::vector<double> Noise(size_t n, double sigma, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, sigma);
  std::vector<double> out(n);
  for (double& v : out) v = normal(random);
  return out;
}

TEST(Regimes, FindsTheFirstAndLastStepOfAnEpisode) {
  std::vector<double> series = Noise(30, 0.005, 1);
  for (size_t k = 12; k < 22; ++k) series[k] += 0.1;
  const Regime regime = FindRegime(series, 0.015);
  ASSERT_TRUE(regime.split());
  for (size_t k = 0; k < 30; ++k) EXPECT_EQ(regime.SlowAt(k), k >= 12 && k < 22) << k;
}

TEST(Regimes, FindsAWeakEpisodeAsARun) {
  std::vector<double> series = Noise(40, 0.01, 2);
  for (size_t k = 20; k < 40; ++k) series[k] += 0.04;
  const Regime regime = FindRegime(series, 0.015);
  ASSERT_TRUE(regime.split());
  size_t right = 0;
  for (size_t k = 0; k < 40; ++k) right += regime.SlowAt(k) == (k >= 20) ? 1 : 0;
  EXPECT_GE(right, 38u);
}

TEST(Regimes, FindsScatteredSlowSteps) {
  std::vector<double> series = Noise(20, 0.004, 3);
  for (size_t k : {3u, 4u, 11u, 17u}) series[k] += 0.2;
  const Regime regime = FindRegime(series, 0.015);
  ASSERT_TRUE(regime.split());
  for (size_t k = 0; k < 20; ++k) EXPECT_EQ(regime.SlowAt(k), k == 3 || k == 4 || k == 11 || k == 17) << k;
}

// Every other difference of neighbours is then one between the levels.
TEST(Regimes, FindsAlternatingLevelsInFewSteps) {
  for (const std::vector<size_t>& slow : {std::vector<size_t>{3, 4, 7}, {0, 2, 5, 8}, {2, 6}}) {
    std::vector<double> series = Noise(9, 0.003, 4);
    for (size_t k : slow) series[k] += 0.1;
    const Regime regime = FindRegime(series, 0.03);
    ASSERT_TRUE(regime.split()) << slow[0];
    for (size_t k = 0; k < 9; ++k)
      EXPECT_EQ(regime.SlowAt(k), std::find(slow.begin(), slow.end(), k) != slow.end()) << k;
  }
}

TEST(Regimes, NoiseOfFewStepsRarelyGivesARegime) {
  for (const size_t steps : {5u, 8u, 12u}) {
    int found = 0;
    for (uint64_t seed = 0; seed < 2000; ++seed)
      found += FindRegime(Noise(steps, 0.03, seed + 5000), 0.015).split() ? 1 : 0;
    EXPECT_LE(found, 60) << steps;
  }
}

TEST(Regimes, NoiseGivesNoRegime) {
  int found = 0;
  for (uint64_t seed = 0; seed < 300; ++seed)
    found += FindRegime(Noise(20, 0.03, seed + 100), 0.015).split() ? 1 : 0;
  EXPECT_LE(found, 9);
}

TEST(Regimes, DriftRarelyGivesARegime) {
  int found = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::vector<double> series = Noise(20, 0.03, seed + 900);
    for (size_t k = 1; k < series.size(); ++k) series[k] = 0.6 * series[k - 1] + 0.8 * series[k];
    found += FindChangePoint(series, 0.015).split() ? 1 : 0;
  }
  EXPECT_LE(found, 12);
}

TEST(Regimes, FewStepsConstantsAndInvalidLimitsGiveNoRegime) {
  EXPECT_FALSE(FindRegime(std::vector<double>{0, 1, 0, 1}, 0.01).split());
  EXPECT_FALSE(FindRegime(std::vector<double>(20, 5.0), 0.01).split());
  EXPECT_FALSE(FindRegime(Noise(20, 1, 9), 0).split());
  EXPECT_FALSE(FindRegime({}, 0.01).split());
}

TEST(Regimes, AChangePointIsAlwaysARun) {
  std::vector<double> scattered = Noise(20, 0.002, 5), shifted = Noise(20, 0.002, 6);
  for (size_t k : {3u, 9u, 15u}) scattered[k] += 0.2;
  for (size_t k = 9; k < 20; ++k) shifted[k] += 0.05;
  EXPECT_TRUE(FindChangePoint(shifted, 0.01).split());
  EXPECT_FALSE(FindChangePoint(shifted, 0.2).split());
}

}  // namespace
}  // namespace lockstep::analysis
