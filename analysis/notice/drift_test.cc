#include "analysis/notice/drift.h"

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

using Noise = std::function<double()>;

class DriftTest : public testing::Test {
 protected:
  Noise Normal(double deviation) {
    return [this, deviation] { return deviation * normal_(random_); };
  }
  // Adds values, and expects no alarm.
  void AddQuiet(const Noise& noise, int values) {
    for (int i = 0; i < values; ++i) ASSERT_FALSE(drift_.Add(noise())) << i;
  }
  // Adds values that have grown. Returns the alarm, if one comes within `most` values.
  std::optional<Drift::Alarm> AddGrown(const Noise& noise, double growth, int most) {
    for (int i = 0; i < most; ++i) {
      if (const std::optional<Drift::Alarm> alarm = drift_.Add(noise() + growth)) {
        EXPECT_NEAR(static_cast<double>(alarm->values), i + 1, 3) << "it began with the growth";
        return alarm;
      }
    }
    return std::nullopt;
  }

  std::mt19937_64 random_{3};
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  Drift drift_;
};

TEST_F(DriftTest, NoticesAGrowthWithinTenValues) {
  AddQuiet(Normal(0.01), 500);
  const std::optional<Drift::Alarm> alarm = AddGrown(Normal(0.01), 0.2, 10);
  ASSERT_TRUE(alarm);
  EXPECT_NEAR(alarm->growth, 0.2, 0.02);
  EXPECT_TRUE(drift_.grown());
}

TEST_F(DriftTest, NoticesASmallGrowthLater) {
  AddQuiet(Normal(0.01), 2000);
  const std::optional<Drift::Alarm> alarm = AddGrown(Normal(0.01), 0.06, 25);
  ASSERT_TRUE(alarm);
  EXPECT_NEAR(alarm->growth, 0.06, 0.01);
}

TEST_F(DriftTest, TheUsualValueDoesNotMatter) {
  AddQuiet([&] { return -0.7 + 0.01 * normal_(random_); }, 500);
  EXPECT_NEAR(drift_.usual(), -0.7, 0.01);
  EXPECT_TRUE(AddGrown([&] { return -0.7 + 0.01 * normal_(random_); }, 0.2, 12));
}

TEST_F(DriftTest, AShrinkingValueIsNotASlowdown) {
  AddQuiet(Normal(0.01), 500);
  AddQuiet([&] { return -0.3 + 0.01 * normal_(random_); }, 200);
}

TEST_F(DriftTest, ASingleValueIsNotADrift) {
  AddQuiet(Normal(0.01), 500);
  EXPECT_FALSE(drift_.Add(1e9));
  AddQuiet(Normal(0.01), 100);
}

TEST_F(DriftTest, ASlowDriftOverManyValuesIsNoticed) {
  AddQuiet(Normal(0.01), 2000);
  double growth = 0;
  int at = 0;
  for (; at < 3000 && !drift_.Add(0.01 * normal_(random_) + growth); ++at) growth += 1e-4;
  EXPECT_LT(growth, 0.1);
}

TEST_F(DriftTest, TellsWhenTheValueIsAsBefore) {
  AddQuiet(Normal(0.01), 500);
  ASSERT_TRUE(AddGrown(Normal(0.01), 0.3, 20));
  for (int i = 0; i < 100; ++i) drift_.Add(0.3);
  EXPECT_TRUE(drift_.grown());
  int values = 0;
  for (; drift_.grown() && values < 100; ++values) drift_.Add(0);
  EXPECT_LT(values, 40);
  EXPECT_TRUE(AddGrown(Normal(0.01), 0.3, 20)) << "the next one is noticed, too";
}

TEST_F(DriftTest, NoiseIsNotADrift) {
  double previous = 0;
  int number = 0;
  const std::vector<Noise> noises = {
      Normal(0.01), Normal(0.1), [&] { return 0.01 * std::exp(1.5 * normal_(random_)); },
      [&] { return 0.005 / std::pow(uniform_(random_), 1 / 1.1); },
      [&] { return previous = 0.95 * previous + 0.005 * normal_(random_); },
      [&] { return 0.01 * normal_(random_) + (uniform_(random_) < 0.01 ? 1 : 0); },
      // Rank 0 writes a checkpoint.
      [&] { return 0.01 * normal_(random_) + (++number % 100 == 0 ? 5 : 0); }};
  for (size_t i = 0; i < noises.size(); ++i) {
    for (int job = 0; job < 5; ++job) {
      drift_ = Drift();
      SCOPED_TRACE(i);
      AddQuiet(noises[i], 20'000);
    }
  }
}

// A machine's noise grows over days.
TEST_F(DriftTest, TheLimitsFollowTheNoise) {
  for (int i = 0; i < 600'000; ++i) {
    const double deviation = 0.01 + 0.05 * i / 600'000;
    ASSERT_FALSE(drift_.Add(deviation * normal_(random_))) << i;
  }
}

TEST_F(DriftTest, OneLongStepDoesNotHideTheGrowth) {
  AddQuiet(Normal(0.01), 500);
  std::optional<Drift::Alarm> alarm;
  for (int i = 0; i < 20 && !alarm; ++i) alarm = drift_.Add(i == 3 ? 50 : 0.2 + 0.01 * normal_(random_));
  ASSERT_TRUE(alarm);
  EXPECT_LT(alarm->growth, 0.5);
  for (int i = 0; i < 200; ++i) drift_.Add(i % 50 < 5 ? -50 : 0.2 + 0.01 * normal_(random_));
  EXPECT_TRUE(drift_.grown()) << "the other ranks write checkpoints";
}

TEST_F(DriftTest, SomeSlowStepsInARowAreNotADrift) {
  AddQuiet(Normal(0.01), 100'000);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(drift_.Add(0.3));
  AddQuiet(Normal(0.01), 100);
}

// Most of its values are 0, and some are 0.5.
TEST_F(DriftTest, SkewedValuesAreLearnedToo) {
  const Noise skewed = [&] { return uniform_(random_) < 0.2 ? 0.5 : 0.0; };
  AddQuiet([&] { return 1.0; }, 100);
  AddQuiet(skewed, 2000);
  EXPECT_TRUE(AddGrown(skewed, 1.0, 60));
}

TEST_F(DriftTest, SurvivesAnyNumbers) {
  const double numbers[] = {0, 1e308, -1e308, std::nan(""), std::numeric_limits<double>::infinity(), 1e-308};
  for (int i = 0; i < 20'000; ++i) drift_.Add(numbers[random_() % 6]);
  EXPECT_FALSE(std::isnan(drift_.usual()));
}

}  // namespace
}  // namespace lockstep::analysis
