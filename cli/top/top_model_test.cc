#include "cli/top/top_model.h"

#include "cli/top/top_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;

std::vector<int> RanksBy(const TopModel& model, TopSort sort) {
  std::vector<int> ranks;
  for (const v1::SampleRank* rank : model.Ranks(sort)) ranks.push_back(rank->rank());
  return ranks;
}

TEST(TopModel, IsEmptyBeforeTheFirstSample) {
  TopModel model;
  model.Add(PaceOf());
  EXPECT_EQ(model.last(), nullptr);
  EXPECT_EQ(model.Agreement().of, 0u);
  EXPECT_TRUE(model.StepTrend(10).empty());
  EXPECT_FALSE(model.StepSinceSampleNs().has_value());
  EXPECT_TRUE(model.Ranks(TopSort::kWait).empty());
}

TEST(TopModel, AgreementCountsTheSameCulpritForTheSameCause) {
  TopModel model;
  for (uint64_t n = 1; n <= 3; ++n) model.Add(SampleOf(n, Health::kHealthy));
  EXPECT_EQ(model.Agreement().agree, 3u);
  model.Add(SampleOf(4, Health::kRank5Slow));
  EXPECT_EQ(model.Agreement().agree, 1u);
  EXPECT_EQ(model.Agreement().of, 4u);
  v1::WatchEvent other = SampleOf(5, Health::kRank5Slow);
  other.mutable_sample()->mutable_stragglers(0)->set_cause("copy");
  model.Add(other);
  EXPECT_EQ(model.Agreement().agree, 1u) << "another cause";
  model.Add(SampleOf(6, Health::kRank5Slow));
  EXPECT_EQ(model.Agreement().agree, 2u);
  EXPECT_EQ(model.Agreement().of, 6u);
}

TEST(TopModel, IgnoresSamplesWithTooFewSteps) {
  TopModel model;
  model.Add(SampleOf(1, Health::kHealthy));
  model.Add(SampleOf(2, Health::kTooFewSteps));
  EXPECT_EQ(model.Agreement().of, 0u) << "nor does anybody agree with one";
  model.Add(SampleOf(3, Health::kHealthy));
  EXPECT_EQ(model.Agreement().of, 2u);
}

TEST(TopModel, AgreementCoversTheLastTenSamples) {
  TopModel model;
  for (uint64_t n = 1; n <= 5; ++n) model.Add(SampleOf(n, Health::kHealthy));
  for (uint64_t n = 6; n <= 20; ++n) model.Add(SampleOf(n, Health::kRank5Slow));
  EXPECT_EQ(model.Agreement().agree, 10u);
  EXPECT_EQ(model.Agreement().of, 10u);
}

TEST(TopModel, TheTrendEndsWithTheNewestAndHasHolesForUnknownSteps) {
  TopModel model;
  model.Add(SampleOf(1, Health::kHealthy));
  v1::WatchEvent unknown = SampleOf(2, Health::kHealthy);
  unknown.mutable_sample()->clear_step_ns();
  model.Add(unknown);
  model.Add(SampleOf(3, Health::kRank5Slow));
  EXPECT_THAT(model.StepTrend(10), ElementsAre(101.0e6, std::nullopt, 116.0e6));
  EXPECT_THAT(model.StepTrend(1), ElementsAre(116.0e6));
}

TEST(TopModel, CoversAllStepsSinceTheLastSample) {
  TopModel model;
  model.Add(SampleOf(1, Health::kHealthy));
  EXPECT_FALSE(model.StepSinceSampleNs());
  model.Add(SampleOf(2, Health::kHealthy));
  EXPECT_DOUBLE_EQ(*model.StepSinceSampleNs(), 5e9 / 43);
  v1::WatchEvent again = SampleOf(3, Health::kHealthy);
  again.mutable_sample()->set_last_step(3);
  model.Add(again);
  EXPECT_FALSE(model.StepSinceSampleNs()) << "the job counts from the beginning";
}

TEST(TopModel, IgnoresRepeatedEvents) {
  TopModel model;
  model.Add(SampleOf(1, Health::kHealthy));
  model.Add(SampleOf(2, Health::kRank5Slow));
  model.Add(SampleOf(1, Health::kHealthy));
  model.Add(PauseOf(kFirstBegin));
  EXPECT_EQ(model.samples(), 2u);
  EXPECT_EQ(model.last()->number(), 2u);
  EXPECT_EQ(model.pause(), nullptr) << "older than the last sample";
}

TEST(TopModel, APauseEndsWithTheNextSample) {
  TopModel model;
  model.Add(SampleOf(1, Health::kHealthy));
  model.Add(PauseOf(kFirstBegin + 9 * kSecond));
  ASSERT_NE(model.pause(), nullptr);
  model.Add(SampleOf(2, Health::kHealthy));
  EXPECT_EQ(model.pause(), nullptr);
}

TEST(TopModel, RanksAreSortedWorstFirst) {
  TopModel model;
  model.Add(SampleOf(1, Health::kRank5Slow));
  EXPECT_THAT(RanksBy(model, TopSort::kAboveTypical), ElementsAre(5, 2, 7, 6, 4, 3, 1, 0));
  EXPECT_THAT(RanksBy(model, TopSort::kWait), ElementsAre(7, 6, 4, 3, 2, 1, 0, 5));
  EXPECT_THAT(RanksBy(model, TopSort::kLost), ElementsAre(7, 0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(RanksBy(model, TopSort::kRank), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  for (size_t i = 0; i < kTopSorts; ++i) {
    const auto sort = static_cast<TopSort>(i);
    EXPECT_EQ(ParseTopSort(TopSortName(sort)), sort);
  }
  EXPECT_FALSE(ParseTopSort("beauty"));
}

}  // namespace
}  // namespace lockstep::cli
