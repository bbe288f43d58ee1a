#include "aggregator/live/sampling_schedule.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::HasSubstr;

constexpr SamplingSchedule kRequested{Nanos::Seconds(5), Nanos::Seconds(1)};

TEST(SamplingSchedule, ErrorsNameTheLimits) {
  EXPECT_EQ(*CheckSchedule(Nanos::Seconds(5), Nanos::Seconds(1)), kRequested);
  EXPECT_THAT(CheckSchedule(Nanos::Millis(900), Nanos::Millis(20)).status().message(),
              HasSubstr("--every is 0.9 s"));
  EXPECT_THAT(CheckSchedule(Nanos::Seconds(7200), Nanos::Millis(20)).status().message(),
              HasSubstr("1 s to 1 h"));
  EXPECT_THAT(CheckSchedule(Nanos::Seconds(5), Nanos()).status().message(), HasSubstr("--window"));
  EXPECT_THAT(CheckSchedule(Nanos::Seconds(60), Nanos::Seconds(11)).status().message(), HasSubstr("10 s"));
  EXPECT_THAT(CheckSchedule(Nanos::Seconds(5), Nanos::Seconds(3)).status().message(),
              HasSubstr("give --every 6 s"));
  EXPECT_TRUE(CheckSchedule(Nanos::Seconds(6), Nanos::Seconds(3)).ok());
  EXPECT_FALSE(CheckSchedule(Nanos(-1), Nanos(-1)).ok());
}

TEST(SamplingSchedule, UsesTheMostFrequentSchedule) {
  const SamplingSchedule often{Nanos::Seconds(2), Nanos::Millis(500)};
  EXPECT_EQ(MostFrequent({kRequested, often}), often);
  EXPECT_EQ(MostFrequent({often, kRequested}), often);
  EXPECT_EQ(MostFrequent({kRequested, {Nanos::Seconds(5), Nanos::Millis(100)}}).window, Nanos::Millis(100))
      << "and the shorter one";
}

TEST(SamplingSchedule, StaysIfTheWindowHoldsEnoughSteps) {
  EXPECT_EQ(NextSchedule(kRequested, kRequested, {.whole = 8, .partial = 2, .length_ns = 116e6}), kRequested);
}

TEST(SamplingSchedule, GrowsWithTheStepsAtTheSameShare) {
  const SamplingSchedule next =
      NextSchedule(kRequested, kRequested, {.whole = 1, .partial = 2, .length_ns = 600e6});
  EXPECT_EQ(next.window, Nanos::Seconds(3)) << "five steps of 0.6 s";
  EXPECT_EQ(next.every, Nanos::Seconds(15));
  EXPECT_EQ(NextSchedule(kRequested, next, {.whole = 3, .partial = 2, .length_ns = 600e6}), next)
      << "kept while it does";
}

TEST(SamplingSchedule, DoublesIfNoStepIsWhole) {
  const SamplingSchedule next = NextSchedule(kRequested, kRequested, {.whole = 0, .partial = 1});
  EXPECT_EQ(next, (SamplingSchedule{Nanos::Seconds(10), Nanos::Seconds(2)}));
  SamplingSchedule schedule = next;
  for (int i = 0; i < 5; ++i) schedule = NextSchedule(kRequested, schedule, {.whole = 0, .partial = 1});
  EXPECT_EQ(schedule, (SamplingSchedule{Nanos::Seconds(50), kLongestWindow})) << "and no further";
}

TEST(SamplingSchedule, ReturnsToTheRequestWhenStepsGetShort) {
  const SamplingSchedule slow{Nanos::Seconds(50), Nanos::Seconds(10)};
  EXPECT_EQ(NextSchedule(kRequested, slow, {.whole = 90, .partial = 2, .length_ns = 100e6}), kRequested);
}

TEST(SamplingSchedule, StaysWithoutStepMarks) {
  EXPECT_EQ(NextSchedule(kRequested, kRequested, {}), kRequested);
}

}  // namespace
}  // namespace lockstep::aggregator
