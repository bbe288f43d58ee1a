#include "aggregator/live/pace.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::live {
namespace {

using ::testing::HasSubstr;

constexpr Pace kAsked{Nanos::Seconds(5), Nanos::Seconds(1)};

TEST(Pace, BoundsAreNamed) {
  EXPECT_EQ(*CheckPace(Nanos::Seconds(5), Nanos::Seconds(1)), kAsked);
  EXPECT_THAT(CheckPace(Nanos::Millis(900), Nanos::Millis(20)).status().message(),
              HasSubstr("--every is 0.9 s"));
  EXPECT_THAT(CheckPace(Nanos::Seconds(7200), Nanos::Millis(20)).status().message(), HasSubstr("1 s to 1 h"));
  EXPECT_THAT(CheckPace(Nanos::Seconds(5), Nanos()).status().message(), HasSubstr("--window"));
  EXPECT_THAT(CheckPace(Nanos::Seconds(60), Nanos::Seconds(11)).status().message(), HasSubstr("10 s"));
  EXPECT_THAT(CheckPace(Nanos::Seconds(5), Nanos::Seconds(3)).status().message(),
              HasSubstr("give --every 6 s"));
  EXPECT_TRUE(CheckPace(Nanos::Seconds(6), Nanos::Seconds(3)).ok());
  EXPECT_FALSE(CheckPace(Nanos(-1), Nanos(-1)).ok());
}

TEST(Pace, TheMostFrequentOfAllThatAreAskedFor) {
  const Pace often{Nanos::Seconds(2), Nanos::Millis(500)};
  EXPECT_EQ(MostFrequent({kAsked, often}), often);
  EXPECT_EQ(MostFrequent({often, kAsked}), often);
  EXPECT_EQ(MostFrequent({kAsked, {Nanos::Seconds(5), Nanos::Millis(100)}}).window, Nanos::Millis(100))
      << "and the shorter one";
}

TEST(Pace, StaysWhereTheWindowHoldsEnoughSteps) {
  EXPECT_EQ(NextPace(kAsked, kAsked, {.whole = 8, .partial = 2, .length_ns = 116e6}), kAsked);
}

TEST(Pace, GrowsWithTheStepsAtTheSameShare) {
  const Pace next = NextPace(kAsked, kAsked, {.whole = 1, .partial = 2, .length_ns = 600e6});
  EXPECT_EQ(next.window, Nanos::Seconds(3)) << "five steps of 0.6 s";
  EXPECT_EQ(next.every, Nanos::Seconds(15));
  EXPECT_EQ(NextPace(kAsked, next, {.whole = 3, .partial = 2, .length_ns = 600e6}), next)
      << "kept while it does";
}

TEST(Pace, DoublesWhereNotOneStepIsWhole) {
  const Pace next = NextPace(kAsked, kAsked, {.whole = 0, .partial = 1});
  EXPECT_EQ(next, (Pace{Nanos::Seconds(10), Nanos::Seconds(2)}));
  Pace pace = next;
  for (int i = 0; i < 5; ++i) pace = NextPace(kAsked, pace, {.whole = 0, .partial = 1});
  EXPECT_EQ(pace, (Pace{Nanos::Seconds(50), kLongestWindow})) << "and no further";
}

TEST(Pace, ComesBackWhenStepsGetShort) {
  const Pace slow{Nanos::Seconds(50), Nanos::Seconds(10)};
  EXPECT_EQ(NextPace(kAsked, slow, {.whole = 90, .partial = 2, .length_ns = 100e6}), kAsked);
}

TEST(Pace, StepsThatNothingMarksAreNotWaitedFor) { EXPECT_EQ(NextPace(kAsked, kAsked, {}), kAsked); }

}  // namespace
}  // namespace lockstep::live
