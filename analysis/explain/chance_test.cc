#include "analysis/explain/chance.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

// Ranks that are alike, apart from a lasting difference of each rank and noise from step to step.
std::vector<std::vector<double>> Ranks(size_t ranks, size_t steps, double lasting, double per_step,
                                       uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 1);
  std::vector<std::vector<double>> rows(ranks, std::vector<double>(steps));
  for (auto& row : rows) {
    const double own = lasting * normal(random);
    for (double& v : row) v = own + per_step * normal(random);
  }
  return rows;
}

std::vector<double> Means(const std::vector<std::vector<double>>& rows) {
  std::vector<double> out;
  for (const auto& row : rows)
    out.push_back(std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size()));
  return out;
}

double FalseAlarms(size_t ranks, double lasting, double per_step) {
  int alarms = 0;
  constexpr int kJobs = 400;
  for (int job = 0; job < kJobs; ++job) {
    const auto rows = Ranks(ranks, 20, lasting, per_step, static_cast<uint64_t>(job) + 1);
    const std::vector<double> means = Means(rows);
    const Chance chance = ChanceAmong(means, StepError(rows));
    const double floor = std::max(chance.floor, PermutationFloor(rows));
    alarms += *std::max_element(means.begin(), means.end()) - chance.middle > floor ? 1 : 0;
  }
  return static_cast<double>(alarms) / kJobs;
}

TEST(Chance, EqualRanksStayBelowTheFloorAtAnyNoise) {
  for (const size_t ranks : {6u, 8u, 16u, 64u}) {
    EXPECT_LE(FalseAlarms(ranks, 0, 0.03), 0.02) << ranks;
    EXPECT_LE(FalseAlarms(ranks, 0.01, 0.01), 0.02) << ranks;
  }
}

TEST(Chance, ThreePercentSlownessExceedsTheFloorOfOnePercentNoise) {
  for (const size_t ranks : {8u, 64u}) {
    int found = 0;
    for (uint64_t job = 0; job < 50; ++job) {
      auto rows = Ranks(ranks, 20, 0.001, 0.01, job + 7);
      for (double& v : rows[3]) v += 0.03;
      const std::vector<double> means = Means(rows);
      const Chance chance = ChanceAmong(means, StepError(rows));
      found += means[3] - chance.middle > std::max(chance.floor, PermutationFloor(rows)) ? 1 : 0;
    }
    EXPECT_GE(found, 48) << ranks;
  }
}

TEST(Chance, TwoSlowRanksDoNotHideEachOther) {
  auto rows = Ranks(8, 20, 0.001, 0.01, 3);
  for (double& v : rows[1]) v += 0.05;
  for (double& v : rows[6]) v += 0.05;
  const std::vector<double> means = Means(rows);
  const Chance chance = ChanceAmong(means, StepError(rows));
  const double floor = std::max(chance.floor, PermutationFloor(rows));
  EXPECT_GT(means[1] - chance.middle, floor);
  EXPECT_GT(means[6] - chance.middle, floor);
}

TEST(Chance, PermutationFloorEqualsEnumerationOfAllLabellings) {
  // Two blocks of three ranks have 3! * 3! labellings. The slow rank becomes the mirror of the fast one.
  const std::vector<std::vector<double>> rows = {{-1, -2, -1, -2}, {0, 0, 0, 0}, {9, 9, 9, 9}};
  // Mirrored blocks hold {-1, 0, 1} and {-2, 0, 2} in turn, so the largest mean of any labelling is 1.5.
  EXPECT_NEAR(PermutationFloor(rows), 1.5, 1e-9);
}

TEST(Chance, FloorIsDeterministicAndZeroWithoutPeers) {
  const auto rows = Ranks(16, 20, 0.01, 0.01, 5);
  EXPECT_EQ(PermutationFloor(rows), PermutationFloor(rows));
  EXPECT_EQ(PermutationFloor({}), 0);
  EXPECT_EQ(PermutationFloor({{1, 2, 3}, {2, 3, 4}}), 0);
  EXPECT_EQ(ChanceAmong({}, 0.5).sigma, 0.5);
  EXPECT_EQ(ChanceAmong(std::vector<double>{4.0}, 0).middle, 4.0);
}

}  // namespace
}  // namespace lockstep::analysis
