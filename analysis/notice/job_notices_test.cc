#include "analysis/notice/job_notices.h"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

constexpr int kRanks = 4;
constexpr Nanos kStep = Nanos::Millis(100), kOwn = Nanos::Millis(80);

// Four ranks with steps of 100 ms, of which 80 ms are their own time, with 1 % noise.
class JobNoticesTest : public testing::Test {
 protected:
  Nanos Noisy(Nanos time) {
    return Nanos(static_cast<int64_t>(static_cast<double>(time.ns()) * (1 + 0.01 * normal_(random_))));
  }
  // Adds a step in which the ranks' own times are longer by `longer`. All ranks wait for the slowest one.
  void Step(const std::vector<Nanos>& longer = {}) {
    ++number_;
    now_ += Nanos::Millis(100);
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      if (!absent_.contains(rank)) AddRank(rank, longer);
    }
    Note(notices_.Compare(now_));
  }
  void AddRank(int32_t rank, const std::vector<Nanos>& longer = {}) {
    const Nanos more = longer.empty() ? Nanos() : longer[static_cast<size_t>(rank)];
    const Nanos most = longer.empty() ? Nanos() : *std::max_element(longer.begin(), longer.end());
    AddRow({.rank = RankId(rank),
            .process = process_,
            .number = number_,
            .period = period_,
            .duration = kStep + most,
            .communication = kStep - kOwn + most - more + Noisy(kOwn) - kOwn});
  }
  void AddRow(const RankStepTime& row) { notices_.Add(row, now_); }
  void Note(const JobNotices::News& news) {
    slower_.insert(slower_.end(), news.slower.begin(), news.slower.end());
    ended_.insert(ended_.end(), news.ended.begin(), news.ended.end());
  }
  void Steps(int count, const std::vector<Nanos>& longer = {}) {
    for (int i = 0; i < count; ++i) Step(longer);
  }

  std::mt19937_64 random_{5};
  std::normal_distribution<double> normal_;
  JobNotices notices_;
  uint64_t number_ = 1000;
  uint64_t period_ = 0;
  uint64_t process_ = 1;
  std::set<int32_t> absent_;
  MonoTime now_ = MonoTime(1'000'000'000'000);
  std::vector<SlowRank> slower_;
  std::vector<RankId> ended_;
};

TEST_F(JobNoticesTest, NamesTheRankThatBecomesSlower) {
  Steps(600);
  EXPECT_TRUE(slower_.empty());
  EXPECT_EQ(notices_.ranks(), 4u);
  EXPECT_EQ(notices_.step_time(), Nanos::Millis(100));
  const MonoTime begin = now_;
  Steps(20, {{}, {}, Nanos::Millis(20), {}});
  ASSERT_EQ(slower_.size(), 1u);
  const SlowRank& slow = slower_[0];
  EXPECT_EQ(slow.rank, RankId(2));
  EXPECT_NEAR(static_cast<double>(slow.since_step), 1601, 2);
  EXPECT_LE(slow.noticed_step, 1612u);
  EXPECT_NEAR(slow.own_before.millis(), 80, 1);
  EXPECT_NEAR(slow.own_now.millis(), 100, 2);
  EXPECT_EQ(slow.step_before, Nanos::Millis(100));
  EXPECT_EQ(slow.step_now, Nanos::Millis(120));
  EXPECT_LT(slow.since - begin, Nanos::Millis(500));
}

TEST_F(JobNoticesTest, NoticesTheRecovery) {
  Steps(600);
  Steps(100, {Nanos::Millis(50), {}, {}, {}});
  ASSERT_EQ(slower_.size(), 1u);
  EXPECT_TRUE(ended_.empty());
  Steps(100);
  EXPECT_EQ(ended_, std::vector<RankId>{RankId(0)});
  EXPECT_EQ(slower_.size(), 1u);
}

TEST_F(JobNoticesTest, ASlowdownOfAllRanksIsNotOneOfARank) {
  Steps(600);
  Steps(200, std::vector<Nanos>(kRanks, Nanos::Millis(50)));
  EXPECT_TRUE(slower_.empty());
}

TEST_F(JobNoticesTest, AConstantDifferenceIsNotASlowdown) {
  Steps(800, {{}, Nanos::Millis(30), Nanos::Millis(60), {}});
  EXPECT_TRUE(slower_.empty());
}

TEST_F(JobNoticesTest, EvaluationsAndCheckpointsAreNotSlowdowns) {
  for (int i = 0; i < 60; ++i) {
    Steps(50);
    Step(std::vector<Nanos>(kRanks, Nanos::Seconds(20)));
    Step({Nanos::Seconds(5), {}, {}, {}});
  }
  EXPECT_TRUE(slower_.empty());
}

// A constant difference is the same share of a step if all steps become longer in proportion.
TEST_F(JobNoticesTest, LongerInputsAreNotASlowdown) {
  const std::vector<Nanos> difference = {{}, {}, Nanos::Millis(10), {}};
  Steps(600, difference);
  for (int i = 0; i < 300; ++i) {
    ++number_;
    now_ += Nanos::Millis(300);
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      const Nanos own = (Noisy(kOwn) + difference[static_cast<size_t>(rank)]) * 3;
      AddRow({.rank = RankId(rank),
              .process = 1,
              .number = number_,
              .duration = Nanos::Millis(330),
              .communication = Nanos::Millis(330) - own});
    }
    Note(notices_.Compare(now_));
  }
  EXPECT_TRUE(slower_.empty());
}

// The same difference is a larger share if all steps become shorter.
TEST_F(JobNoticesTest, ShorterStepsAreNotASlowdown) {
  const std::vector<Nanos> difference = {{}, {}, Nanos::Millis(10), {}};
  Steps(600, difference);
  for (int i = 0; i < 300; ++i) {
    ++number_;
    now_ += Nanos::Millis(50);
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      const Nanos own = Nanos::Millis(25) + difference[static_cast<size_t>(rank)];
      AddRow({.rank = RankId(rank),
              .process = 1,
              .number = number_,
              .duration = Nanos::Millis(50),
              .communication = Nanos::Millis(50) - Noisy(own)});
    }
    Note(notices_.Compare(now_));
  }
  EXPECT_TRUE(slower_.empty());
}

TEST_F(JobNoticesTest, ARankThatHasLeftDelaysTheOthersOnlyOnce) {
  Steps(200);
  const uint64_t compared = notices_.compared();
  absent_ = {3};
  Steps(50);
  EXPECT_EQ(notices_.compared(), compared);
  now_ += Nanos::Seconds(15);
  Note(notices_.Compare(now_));
  EXPECT_EQ(notices_.compared(), compared + 50);
  EXPECT_EQ(notices_.ranks(), 3u);
  Step();
  EXPECT_EQ(notices_.compared(), compared + 51);
}

// As after a break of its node's connection.
TEST_F(JobNoticesTest, RanksThatComeBackAreComparedAgain) {
  Steps(600);
  absent_ = {2, 3};
  Steps(200);
  now_ += Nanos::Seconds(15);
  Note(notices_.Compare(now_));
  absent_ = {};
  // Their rows come before those of the others once, and after them once.
  for (const bool first : {true, false}) {
    for (int i = 0; i < 20; ++i) {
      ++number_;
      now_ += Nanos::Millis(100);
      for (const int32_t rank : first ? std::vector<int32_t>{2, 3, 0, 1} : std::vector<int32_t>{0, 1, 2, 3}) {
        AddRank(rank);
        Note(notices_.Compare(now_));
      }
    }
    EXPECT_EQ(notices_.ranks(), 4u);
  }
  Steps(20, {{}, {}, {}, Nanos::Millis(30)});
  ASSERT_EQ(slower_.size(), 1u) << "what was learned is not lost";
  EXPECT_EQ(slower_[0].rank, RankId(3));
}

// An update has the steps of one rank after the other.
TEST_F(JobNoticesTest, ManyStepsOfOneRankMayComeAtOnce) {
  Steps(200);
  const uint64_t first = number_;
  const uint64_t compared = notices_.compared();
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    for (number_ = first + 1; number_ <= first + 1000; ++number_) AddRank(rank);
  }
  number_ = first + 1000;
  Note(notices_.Compare(now_));
  EXPECT_EQ(notices_.compared(), compared + 1000);
  EXPECT_EQ(notices_.ranks(), 4u);
}

TEST_F(JobNoticesTest, OfTwoRanksTheFasterOneIsTheMeasure) {
  absent_ = {2, 3};
  Steps(600);
  Steps(20, {{}, Nanos::Millis(30), {}, {}});
  ASSERT_EQ(slower_.size(), 1u);
  EXPECT_EQ(slower_[0].rank, RankId(1));
}

TEST_F(JobNoticesTest, AJobThatWasRestartedBeginsAgain) {
  Steps(600);
  Steps(30, {Nanos::Millis(50), {}, {}, {}});
  ASSERT_EQ(slower_.size(), 1u);
  number_ = 200;
  Steps(200);
  EXPECT_EQ(notices_.last_step(), 400u);
  EXPECT_LE(notices_.compared(), 200u);
  EXPECT_EQ(ended_, std::vector<RankId>{RankId(0)}) << "it cannot be compared any more";
}

TEST_F(JobNoticesTest, ANewProcessIsComparedWithItselfOnly) {
  Steps(600);
  Steps(30, {Nanos::Millis(50), {}, {}, {}});
  ASSERT_EQ(slower_.size(), 1u);
  process_ = 2;
  // It counts on from the same step, on slower GPUs.
  Steps(300, {{}, Nanos::Millis(20), {}, {}});
  EXPECT_EQ(slower_.size(), 1u);
  EXPECT_EQ(ended_, std::vector<RankId>{RankId(0)});
}

TEST_F(JobNoticesTest, ARankWithAnotherPeriodDoesNotDisturb) {
  period_ = 8;
  Steps(200);
  const uint64_t compared = notices_.compared();
  for (uint64_t i = 0; i < 50; ++i) {
    AddRow({.rank = RankId(1),
            .process = 1,
            .number = i,
            .period = 4,
            .duration = Nanos::Millis(50),
            .communication = Nanos::Millis(10)});
    absent_ = {1};
    Step();
  }
  EXPECT_EQ(notices_.compared(), compared + 50);
  period_ = 4;
  absent_ = {};
  number_ = 100;
  Steps(50);
  EXPECT_EQ(notices_.last_step(), 150u) << "all ranks have another period now";
}

TEST_F(JobNoticesTest, OneRankHasNothingToCompareWith) {
  absent_ = {1, 2, 3};
  Steps(1000);
  EXPECT_EQ(notices_.compared(), 0u);
  EXPECT_EQ(notices_.step_time(), Nanos());
}

TEST_F(JobNoticesTest, AFalseNumberOfOneRankDoesNotHideTheOthers) {
  Steps(200);
  AddRow({.rank = RankId(1), .process = 1, .number = ~uint64_t{0}, .duration = kStep, .communication = {}});
  Steps(200);
  now_ += Nanos::Seconds(15);
  Note(notices_.Compare(now_));
  EXPECT_EQ(notices_.last_step(), 1400u);
}

TEST_F(JobNoticesTest, SurvivesAnyNumbers) {
  const int64_t special[] = {0, -1, INT64_MAX, INT64_MIN, 1, Nanos::Seconds(7 * 86'400).ns()};
  for (int i = 0; i < 40'000; ++i) {
    now_ += Nanos::Seconds(1);
    const auto any = [&] { return Nanos(special[random_() % 6]); };
    for (int32_t rank = 0; rank < 4; ++rank) {
      AddRow({.rank = RankId(rank),
              .process = random_() % 1000 == 0 ? 2u : 1u,
              .number = random_() % 500 == 0 ? ~uint64_t{0} - random_() % 3 : static_cast<uint64_t>(i),
              .period = random_() % 5000 == 0 ? 1u : 0u,
              .duration = random_() % 9 == 0 ? any() : Nanos::Millis(100),
              .communication = random_() % 9 == 0 ? any() : Nanos::Millis(10)});
    }
    Note(notices_.Compare(now_));
  }
  for (const SlowRank& slow : slower_) EXPECT_LE(slow.since_step, slow.noticed_step);
}

}  // namespace
}  // namespace lockstep::analysis
