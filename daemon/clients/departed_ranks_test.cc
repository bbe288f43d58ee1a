#include "daemon/clients/departed_ranks.h"

#include "daemon/node/clock_fake.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

RegisteredProcess RankProcess(int32_t pid, int32_t rank) {
  RegisteredProcess process;
  process.id = {pid, 1};
  process.identity.rank = rank;
  return process;
}

TEST(DepartedRanks, KeepsARankUntilItIsBack) {
  FakeClock clock;
  DepartedRanks departed(clock);
  departed.Add(RankProcess(1, 0), "the process ended", {}, {});
  departed.Add(RankProcess(2, -1), "the process ended", {}, {});
  ASSERT_EQ(departed.ranks().size(), 1u) << "a process without a rank is not kept";
  EXPECT_EQ(departed.ranks()[0].at, clock.Realtime());
  departed.Add(RankProcess(1, 0), "it closed the connection", {}, {});
  ASSERT_EQ(departed.ranks().size(), 1u);
  EXPECT_EQ(departed.ranks()[0].why, "it closed the connection");
  departed.Remove({1, 1});
  EXPECT_TRUE(departed.ranks().empty());
}

RegisteredProcess RankOfUser(int32_t pid, uid_t uid) {
  RegisteredProcess process = RankProcess(pid, pid);
  process.uid = uid;
  return process;
}

TEST(DepartedRanks, DropsTheOldestLogOfTheUserWithMost) {
  FakeClock clock;
  DepartedRanks departed(clock);
  ring::OperationLog log;
  log.operations.resize(ring::kLogEntries);
  departed.Add(RankOfUser(1, 1000), "", {}, log);
  for (int32_t pid = 2; pid <= 9; ++pid) departed.Add(RankOfUser(pid, 1001), "", {}, log);
  ASSERT_EQ(departed.ranks().size(), 9u);
  EXPECT_FALSE(departed.Find({1, 1})->log.operations.empty()) << "another user's";
  EXPECT_TRUE(departed.Find({2, 1})->log.operations.empty());
  EXPECT_FALSE(departed.Find({3, 1})->log.operations.empty());
  EXPECT_EQ(departed.WithLog(RankFilter::All()).size(), 8u);
  EXPECT_EQ(departed.WithLog(RankFilter::Of(1001)).back().process().pid(), 9) << "the newest last";
  EXPECT_EQ(departed.WithLog(RankFilter::Of(1002)).size(), 0u);
  EXPECT_EQ(departed.Find({10, 1}), nullptr);
  clock.Advance(Nanos::Seconds(60));
  EXPECT_TRUE(departed.HasLogSince(Nanos::Seconds(61)));
  EXPECT_FALSE(departed.HasLogSince(Nanos::Seconds(60)));
}

TEST(DepartedRanks, ForgetsTheOldest) {
  FakeClock clock;
  DepartedRanks departed(clock);
  for (int32_t pid = 1; pid <= 3000; ++pid) departed.Add(RankProcess(pid, pid), "", {}, {});
  EXPECT_EQ(departed.ranks().size(), 1024u);
  EXPECT_EQ(departed.ranks().back().process.id.pid, 3000);
  clock.Advance(Nanos::Seconds(25 * 3600));
  departed.Add(RankProcess(1, 1), "", {}, {});
  EXPECT_EQ(departed.ranks().size(), 1u);
}

}  // namespace
}  // namespace lockstep::daemon
