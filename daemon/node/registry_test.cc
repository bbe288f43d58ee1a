#include "daemon/node/registry.h"

#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

RegisteredProcess Process(int32_t pid, int32_t rank, const std::string& job = "job", uid_t uid = 1000) {
  RegisteredProcess process;
  process.id = {pid, static_cast<uint64_t>(pid) * 10};
  process.uid = uid;
  process.identity.job = job;
  process.identity.rank = rank;
  return process;
}

TEST(Registry, CountsIncarnationsOfARank) {
  Registry registry;
  EXPECT_EQ(registry.Add(Process(1, 0)).incarnation, 1u);
  EXPECT_EQ(registry.Add(Process(2, 1)).incarnation, 1u);
  registry.Remove({1, 10});
  EXPECT_EQ(registry.Add(Process(3, 0)).incarnation, 2u);
  registry.Remove({3, 30});
  EXPECT_EQ(registry.Add(Process(4, 0)).incarnation, 3u);
}

TEST(Registry, AProcessThatConnectsAgainKeepsItsIncarnation) {
  Registry registry;
  registry.Add(Process(1, 0));
  registry.Remove({1, 10});
  EXPECT_EQ(registry.Add(Process(1, 0)).incarnation, 1u);
}

TEST(Registry, KeepsTwoLivingProcessesOfOneRank) {
  Registry registry;
  EXPECT_EQ(registry.Add(Process(1, 0)).incarnation, 1u);
  EXPECT_EQ(registry.Add(Process(2, 0)).incarnation, 1u);
  EXPECT_EQ(registry.Ranks(RankFilter::All()).size(), 2u);
}

TEST(Registry, NeverMixesTheJobsOfTwoUsers) {
  Registry registry;
  registry.Add(Process(1, 0, "job", 1000));
  registry.Remove({1, 10});
  EXPECT_EQ(registry.Add(Process(2, 0, "job", 1001)).incarnation, 1u);
  EXPECT_EQ(registry.Add(Process(3, 0, "job", 1000)).incarnation, 2u);
}

TEST(Registry, ShowsEachUserTheirOwnAndRootAll) {
  Registry registry;
  registry.Add(Process(1, 0, "a", 1000));
  registry.Add(Process(2, 0, "b", 1001));
  EXPECT_EQ(registry.Ranks(RankFilter::Of(1000)).size(), 1u);
  EXPECT_EQ(registry.Ranks(RankFilter::Of(1000))[0].job(), "a");
  EXPECT_EQ(registry.Ranks(RankFilter::Of(1002)).size(), 0u);
  EXPECT_EQ(registry.Ranks(RankFilter::Of(0)).size(), 2u);
}

TEST(Registry, ListsByJobAndRank) {
  Registry registry;
  for (int32_t rank : {3, 1, 2, 0}) registry.Add(Process(100 - rank, rank));
  int32_t expected = 0;
  for (const v1::Rank& rank : registry.Ranks(RankFilter::All())) EXPECT_EQ(rank.rank(), expected++);
}

TEST(Registry, ForgetsOldRanksButNoLivingOne) {
  Registry registry;
  registry.Add(Process(1, 0, "living"));
  for (int32_t i = 2; i < 6000; ++i) {
    registry.Add(Process(i, 0, "job" + std::to_string(i)));
    registry.Remove({i, static_cast<uint64_t>(i) * 10});
  }
  registry.Remove({1, 10});
  EXPECT_EQ(registry.Add(Process(6000, 0, "living")).incarnation, 2u);
  EXPECT_EQ(registry.Add(Process(6001, 0, "job2")).incarnation, 1u);
}

TEST(Registry, AProcessWithBothPathsHasOneEntry) {
  Registry registry;
  EXPECT_TRUE(registry.AddKineto(Process(1, 0)));
  EXPECT_FALSE(registry.AddKineto(Process(1, 0))) << "no news";
  ASSERT_EQ(registry.Ranks(RankFilter::All()).size(), 1u);
  EXPECT_EQ(registry.Ranks(RankFilter::All())[0].via(), "kineto");
  EXPECT_FALSE(registry.HasPid(1)) << "its client has not come";
  registry.Add(Process(1, 0));
  ASSERT_EQ(registry.Ranks(RankFilter::All()).size(), 1u);
  EXPECT_EQ(registry.Ranks(RankFilter::All())[0].via(), "cupti");
  EXPECT_TRUE(registry.Ranks(RankFilter::All())[0].kineto());
  EXPECT_EQ(registry.Ranks(RankFilter::All())[0].incarnation(), 1u);
  registry.Remove({1, 10});
  ASSERT_EQ(registry.Ranks(RankFilter::All()).size(), 1u) << "its client is gone, but it still polls";
  EXPECT_EQ(registry.Ranks(RankFilter::All())[0].via(), "kineto");
  EXPECT_TRUE(registry.RemoveKineto({1, 10}));
  EXPECT_FALSE(registry.RemoveKineto({1, 10}));
  EXPECT_EQ(registry.size(), 0u);
  registry.Add(Process(2, 0));
  EXPECT_TRUE(registry.AddKineto(Process(2, 0)));
  EXPECT_TRUE(registry.RemoveKineto({2, 20}));
  EXPECT_EQ(registry.Ranks(RankFilter::All())[0].via(), "cupti") << "its client is still there";
}

TEST(Registry, AProcessWithANewRankMovesThere) {
  Registry registry;
  registry.AddKineto(Process(1, 7, "by-environment"));
  registry.Add(Process(1, 0));
  ASSERT_EQ(registry.Ranks(RankFilter::All()).size(), 1u);
  EXPECT_EQ(registry.Ranks(RankFilter::All())[0].rank(), 0);
  EXPECT_TRUE(registry.Ranks(RankFilter::All())[0].kineto());
  // The old name has no living process any more.
  EXPECT_EQ(registry.Add(Process(2, 7, "by-environment")).incarnation, 2u);
}

}  // namespace
}  // namespace lockstep::daemon
