#include "history/change_points.h"

#include <cmath>
#include <vector>

#include "base/split_mix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::history {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// Returns a number between 0 and 1.
double Uniform(SplitMix& random) { return static_cast<double>(random.Next() >> 11) * 0x1p-53; }

// Returns a normal random number (Box and Muller).
double Normal(SplitMix& random) {
  const double radius = std::sqrt(-2 * std::log(1 - Uniform(random)));
  return radius * std::cos(2 * 3.14159265358979 * Uniform(random));
}

std::vector<double> Series(SplitMix& random, size_t length, double level, double noise) {
  std::vector<double> values(length);
  for (double& value : values) value = level * (1 + noise * Normal(random));
  return values;
}

// Values of a job on a shared network: now and then one is far above the rest.
std::vector<double> HeavySeries(SplitMix& random, size_t length) {
  std::vector<double> values = Series(random, length, 100, 0.02);
  for (double& value : values) value *= Uniform(random) < 0.1 ? 1 + 5 * Uniform(random) : 1;
  return values;
}

void Shift(std::vector<double>& values, size_t from, double factor) {
  for (size_t i = from; i < values.size(); ++i) values[i] *= factor;
}

TEST(ChangePointsTest, SeriesTooShortHaveNoChange) {
  for (const std::vector<double>& values :
       {std::vector<double>{}, {1}, {1, 9}, {1, 9, 9}, {1, 1, 9, 9}, {5, 5, 5, 5, 5, 5, 5, 5, 5, 5}}) {
    EXPECT_THAT(FindChangePoints(values), IsEmpty()) << values.size();
  }
}

// The bound of ChangeOptions::false_alarms, with a margin of four standard deviations of the count.
TEST(ChangePointsTest, NoiseAloneGivesFewerAlarmsThanTheBound) {
  constexpr int kSeries = 400;
  SplitMix random(7);
  for (const double bound : {0.01, 0.1}) {
    int alarms = 0, heavy_alarms = 0;
    for (int i = 0; i < kSeries; ++i) {
      const ChangeOptions options{.false_alarms = bound, .least_shift = 0};
      const size_t length = 6 + random.Below(60);
      alarms += FindChangePoints(Series(random, length, 100, 0.05), options).empty() ? 0 : 1;
      heavy_alarms += FindChangePoints(HeavySeries(random, length), options).empty() ? 0 : 1;
    }
    const double most = kSeries * bound + 4 * std::sqrt(kSeries * bound * (1 - bound));
    EXPECT_LE(alarms, most) << bound;
    EXPECT_LE(heavy_alarms, most) << bound;
    EXPECT_GT(alarms + heavy_alarms, 0) << "the test has no power";
  }
}

TEST(ChangePointsTest, FindsAPlantedChangeAtItsPlace) {
  SplitMix random(11);
  int exact = 0;
  for (int i = 0; i < 50; ++i) {
    std::vector<double> values = Series(random, 40, 20e6, 0.01);
    const size_t at = 6 + random.Below(28);
    Shift(values, at, 1.1);
    const std::vector<ChangePoint> changes = FindChangePoints(values);
    ASSERT_THAT(changes, SizeIs(::testing::Ge(1u))) << "planted at " << at;
    for (const ChangePoint& change : changes) {
      if (change.first != at) continue;
      ++exact;
      EXPECT_NEAR(change.after / change.before, 1.1, 0.02);
    }
  }
  EXPECT_GE(exact, 49);
}

TEST(ChangePointsTest, TwoValuesAfterALongQuietTimeSuffice) {
  SplitMix random(3);
  std::vector<double> values = Series(random, 42, 20e6, 0.005);
  Shift(values, 40, 1.2);
  const std::vector<ChangePoint> changes = FindChangePoints(values);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].first, 40u);
  EXPECT_LT(changes[0].probability, 0.01);
}

TEST(ChangePointsTest, OutliersNeitherMakeNorHideAChange) {
  SplitMix random(5);
  std::vector<double> values = Series(random, 30, 100, 0.01);
  values[4] = 900, values[17] = 1e9, values[25] = 0.001;
  EXPECT_THAT(FindChangePoints(values), IsEmpty());
  Shift(values, 15, 1.15);
  const std::vector<ChangePoint> changes = FindChangePoints(values);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].first, 15u);
  EXPECT_NEAR(changes[0].after / changes[0].before, 1.15, 0.02);
}

TEST(ChangePointsTest, FindsSeveralChangesAndTheirParts) {
  SplitMix random(9);
  std::vector<double> values = Series(random, 60, 100, 0.01);
  Shift(values, 20, 1.3);
  Shift(values, 45, 1.2);
  const std::vector<ChangePoint> changes = FindChangePoints(values);
  ASSERT_THAT(changes, SizeIs(2));
  EXPECT_EQ(changes[0].first, 20u);
  EXPECT_EQ(changes[0].before_begin, 0u);
  EXPECT_EQ(changes[0].after_end, 45u);
  EXPECT_EQ(changes[1].first, 45u);
  EXPECT_EQ(changes[1].before_begin, 20u);
  EXPECT_EQ(changes[1].after_end, 60u);
}

TEST(ChangePointsTest, ChangesBelowTheLeastShiftAreNotReported) {
  SplitMix random(13);
  std::vector<double> values = Series(random, 80, 100, 0.001);
  Shift(values, 40, 1.01);
  EXPECT_THAT(FindChangePoints(values), IsEmpty());
  EXPECT_THAT(FindChangePoints(values, {.least_shift = 0.005}), SizeIs(1));
  Shift(values, 60, 1.5);
  const std::vector<ChangePoint> changes = FindChangePoints(values);
  ASSERT_THAT(changes, SizeIs(1)) << "the parts beside the small change are one";
  EXPECT_EQ(changes[0].first, 60u);
  EXPECT_EQ(changes[0].before_begin, 0u);
}

TEST(ChangePointsTest, AGainFromZeroIsAChange) {
  std::vector<double> values(20, 0);
  for (size_t i = 12; i < values.size(); ++i) values[i] = 5e6;
  const std::vector<ChangePoint> changes = FindChangePoints(values);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].first, 12u);
  EXPECT_EQ(changes[0].before, 0);
}

TEST(ChangePointsTest, TheSameValuesGiveTheSameChanges) {
  SplitMix random(1);
  std::vector<double> values = HeavySeries(random, 50);
  Shift(values, 30, 1.05);
  const auto first = FindChangePoints(values, {.false_alarms = 0.2}),
             second = FindChangePoints(values, {.false_alarms = 0.2});
  ASSERT_EQ(first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].probability, second[i].probability);
}

}  // namespace
}  // namespace lockstep::history
