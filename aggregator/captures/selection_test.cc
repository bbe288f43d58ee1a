#include "aggregator/captures/selection.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SeenRank Seen(int32_t rank, int32_t world, const std::string& job = "a", uint32_t uid = 1000,
              const std::string& node = "n0") {
  SeenRank s;
  s.daemon = {node, 1};
  s.host_name = node;
  s.rank.set_rank(rank);
  s.rank.set_world_size(world);
  s.rank.set_job(job);
  s.rank.set_uid(uid);
  s.rank.mutable_process()->set_pid(100 + rank);
  return s;
}

std::vector<int32_t> Ranks(const Selection& s) {
  std::vector<int32_t> out;
  for (const SeenRank& r : s.ranks) out.push_back(r.rank.rank());
  return out;
}

TEST(Selection, TheOnlyJobNeedsNoName) {
  const Selection s = Select({}, Caller::All(), {Seen(1, 2), Seen(0, 2)}, 1);
  EXPECT_THAT(s.error, IsEmpty());
  EXPECT_EQ(s.job, "a");
  EXPECT_EQ(s.uid, 1000u);
  EXPECT_EQ(s.world_size, 2);
  EXPECT_THAT(Ranks(s), ElementsAre(0, 1));
  EXPECT_THAT(s.missing_ranks, IsEmpty());
}

TEST(Selection, SeveralJobsAreListedInTheError) {
  const Selection s = Select({}, Caller::All(), {Seen(0, 2, "a"), Seen(1, 2, "a"), Seen(0, 1, "b")}, 1);
  EXPECT_THAT(s.error, HasSubstr("a (ranks 0, 1), b (rank 0)"));
  EXPECT_THAT(s.error, HasSubstr("--job"));
}

TEST(Selection, AJobIsChosenByName) {
  v1::TraceRequest request;
  request.set_job("b");
  EXPECT_THAT(Ranks(Select(request, Caller::All(), {Seen(0, 2, "a"), Seen(0, 1, "b")}, 1)), ElementsAre(0));
  request.set_job("c");
  const Selection s = Select(request, Caller::All(), {Seen(0, 2, "a"), Seen(0, 1, "b")}, 1);
  EXPECT_THAT(s.error, HasSubstr("no job is named c"));
  EXPECT_THAT(s.error, HasSubstr("a (rank 0), b (rank 0)"));
}

SeenRank SlurmRank(const std::string& job, const std::string& number, int32_t rank = 0, uint32_t uid = 1000) {
  SeenRank s = Seen(rank, 1, job, uid);
  s.rank.set_job_source("Slurm");
  s.rank.set_scheduler_job(number);
  return s;
}

Selection Named(const std::string& job, const std::vector<SeenRank>& seen,
                const Caller& caller = Caller::All()) {
  v1::TraceRequest request;
  request.set_job(job);
  return Select(request, caller, seen, 1);
}

TEST(Selection, ASlurmJobSelectsItsOnlyStepOrListsSeveral) {
  EXPECT_EQ(Named("123", {SlurmRank("123.0", "123"), SlurmRank("124.0", "124")}).job, "123.0");
  const Selection several = Named("123", {SlurmRank("123.0", "123"), SlurmRank("123.1", "123")});
  EXPECT_THAT(several.error, HasSubstr("123.0 (rank 0), 123.1 (rank 0)"));
  EXPECT_FALSE(several.denied);
  EXPECT_EQ(Named("123", {SlurmRank("123", "123"), SlurmRank("123.1", "123")}).job, "123")
      << "the batch script's own";
  EXPECT_EQ(Named("1000:123", {SlurmRank("123.0", "123"), SlurmRank("123.0", "123", 0, 1001)}).uid, 1000u);
}

TEST(Selection, SelectsWholeJobsIfSomeRanksLackTheSchedulersName) {
  SeenRank by_srun = SlurmRank("3735552", "88.head", 0);
  SeenRank by_ssh = SlurmRank("3735552", "", 1);
  for (SeenRank* seen : {&by_srun, &by_ssh}) seen->rank.set_job_source("PMIx");
  const Selection selection = Named("88", {by_srun, by_ssh, SlurmRank("124.0", "124")});
  EXPECT_EQ(selection.job, "3735552");
  EXPECT_EQ(selection.ranks.size(), 2u);
}

TEST(Selection, SelectsAnArrayTaskByEachOfItsNames) {
  const std::vector<SeenRank> seen = {SlurmRank("50_3.0", "50"), SlurmRank("50_4.0", "51")};
  for (const char* name : {"50_4", "50_4.0", "51"}) EXPECT_EQ(Named(name, seen).job, "50_4.0") << name;
  EXPECT_THAT(Named("50", seen).error, HasSubstr("50_3.0 (rank 0), 50_4.0 (rank 0)"));
}

TEST(Selection, DeniesAnotherUsersJobWithoutDetails) {
  const std::vector<SeenRank> seen = {SlurmRank("123.0", "123", 0, 1000), SlurmRank("124.0", "124", 0, 1001)};
  const Selection denied = Named("123", seen, Caller::User(1001, {.capture_own = true}));
  EXPECT_TRUE(denied.denied);
  EXPECT_THAT(denied.error, HasSubstr("job 123.0 is user 1000's, and you are user 1001"));
  EXPECT_EQ(Named("124", seen, Caller::User(1001, {.capture_own = true})).error, "");
  EXPECT_EQ(Select({}, Caller::User(1001, {.capture_own = true}), seen, 1).job, "124.0")
      << "the only job of that user";
  const Selection none = Named("125", seen, Caller::User(1001, {.capture_own = true}));
  EXPECT_FALSE(none.denied);
  EXPECT_EQ(none.error.find("123"), std::string::npos) << none.error;
  EXPECT_EQ(Named("123", seen, Caller::User(0, Rights::All())).error, "") << "root";
  v1::TraceRequest by_pid;
  by_pid.add_pids(100);
  EXPECT_TRUE(Select(by_pid, Caller::User(1002, {.capture_own = true}), seen, 1).denied);
}

TEST(Selection, TwoUsersJobsOfOneNameNeverMerge) {
  v1::TraceRequest request;
  request.set_job("a");
  const std::vector<SeenRank> seen = {Seen(0, 1, "a", 1000), Seen(0, 1, "a", 1001)};
  EXPECT_THAT(Select(request, Caller::All(), seen, 1).error, HasSubstr("1000:a (rank 0), 1001:a (rank 0)"));
  request.set_job("1001:a");
  const Selection s = Select(request, Caller::All(), seen, 1);
  EXPECT_THAT(s.error, IsEmpty());
  EXPECT_EQ(s.uid, 1001u);
  EXPECT_EQ(s.ranks.size(), 1u);
}

TEST(Selection, UnreportedRanksOfTheWorldAreMissing) {
  const Selection s = Select({}, Caller::All(), {Seen(0, 8), Seen(1, 8), Seen(5, 8)}, 1);
  EXPECT_THAT(s.missing_ranks, ElementsAre(2, 3, 4, 6, 7));
  v1::TraceRequest request;
  request.add_ranks(1);
  request.add_ranks(7);
  const Selection chosen = Select(request, Caller::All(), {Seen(0, 8), Seen(1, 8)}, 1);
  EXPECT_THAT(Ranks(chosen), ElementsAre(1));
  EXPECT_THAT(chosen.missing_ranks, ElementsAre(7)) << "only the requested ranks";
}

TEST(Selection, ARequestForMissingRanksListsThePresentOnes) {
  v1::TraceRequest request;
  request.add_ranks(6);
  EXPECT_THAT(Select(request, Caller::All(), {Seen(0, 4), Seen(1, 4)}, 1).error,
              HasSubstr("has no rank 6 here; it has 0, 1"));
}

TEST(Selection, PidsSelectProcessesAndUnknownOnesAreNamed) {
  v1::TraceRequest request;
  request.add_pids(101);
  const Selection s = Select(request, Caller::All(), {Seen(0, 2), Seen(1, 2)}, 1);
  EXPECT_THAT(Ranks(s), ElementsAre(1));
  EXPECT_THAT(s.missing_ranks, IsEmpty()) << "a request by pids does not expect the whole world";
  request.add_pids(4711);
  EXPECT_THAT(Select(request, Caller::All(), {Seen(0, 2), Seen(1, 2)}, 1).error,
              HasSubstr("no GPU process with pid 4711"));
}

TEST(Selection, NoRanksGivesTheRemedy) {
  EXPECT_THAT(Select({}, Caller::All(), {}, 0).error, HasSubstr("no daemon is connected"));
  EXPECT_THAT(Select({}, Caller::All(), {}, 1).error, HasSubstr("lockstep run -- COMMAND"));
}

TEST(Selection, SelectsBothLivingProcessesOfOneRank) {
  SeenRank second = Seen(0, 2);
  second.rank.mutable_process()->set_pid(999);
  EXPECT_EQ(Select({}, Caller::All(), {Seen(0, 2), second, Seen(1, 2)}, 1).ranks.size(), 3u);
}

TEST(Selection, AHugeWorldSizeNeedsNoMemory) {
  const Selection s = Select({}, Caller::All(), {Seen(0, std::numeric_limits<int32_t>::max())}, 1);
  EXPECT_LE(s.missing_ranks.size(), size_t{1} << 20);
}

v1::Rank Reached(const char* via, bool kineto) {
  v1::Rank rank;
  rank.set_via(via);
  rank.set_kineto(kineto);
  return rank;
}

TEST(RanksOfThePast, ALivingRankHidesThoseThatHadItsPlace) {
  const std::vector<SeenRank> living = {Seen(0, 3), Seen(1, 3)};
  std::vector<SeenRank> departed = {Seen(1, 3), Seen(2, 3), Seen(2, 3), Seen(1, 3, "a", 1001)};
  for (size_t i = 0; i < departed.size(); ++i)
    departed[i].rank.mutable_process()->set_pid(static_cast<int32_t>(i));
  v1::TraceRequest request;
  request.set_job("a");
  std::vector<SeenRank> ranks = RanksOfThePast(request, Caller::All(), living, departed);
  ASSERT_EQ(ranks.size(), 4u);
  EXPECT_EQ(ranks[2].rank.uid(), 1001u) << "another user's job of that name";
  EXPECT_EQ(ranks[3].rank.process().pid(), 2) << "the newest of two";
  request.set_departed(true);
  ranks = RanksOfThePast(request, Caller::All(), living, departed);
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks[1].rank.process().pid(), 2);
  EXPECT_EQ(ranks[2].rank.process().pid(), 0);
}

TEST(RanksOfThePast, WithoutANameItIsTheLivingJobOrTheOneThatEndedLast) {
  const std::vector<SeenRank> departed = {Seen(0, 1, "first"), Seen(0, 1, "second"),
                                          Seen(0, 1, "of another node", 1000, "n1")};
  const auto jobs = [&](const std::vector<SeenRank>& living, const v1::TraceRequest& request) {
    std::vector<std::string> names;
    for (const SeenRank& seen : RanksOfThePast(request, Caller::All(), living, departed))
      names.push_back(seen.rank.job());
    return names;
  };
  v1::TraceRequest request;
  EXPECT_THAT(jobs({Seen(0, 1, "now")}, request), ElementsAre("now"));
  EXPECT_THAT(jobs({Seen(1, 2, "first")}, request), ElementsAre("first", "first"))
      << "and its rank that has ended";
  EXPECT_THAT(jobs({}, request), ElementsAre("of another node", "second"));
  request.set_departed(true);
  EXPECT_THAT(jobs({Seen(0, 1, "now")}, request), ElementsAre("of another node", "second"));
  const Caller other = Caller::User(1001, {.capture_own = true});
  EXPECT_THAT(RanksOfThePast({}, other, {Seen(0, 1)}, departed), IsEmpty()) << "another user's";
}

TEST(ChoosePath, UsesTheClientUnlessPyTorchIsNeeded) {
  v1::TraceRequest request;
  EXPECT_FALSE(ChoosePath(request, Reached("cupti", true)).kineto);
  EXPECT_FALSE(ChoosePath(request, Reached("", false)).kineto) << "of an older daemon";
  EXPECT_TRUE(ChoosePath(request, Reached("kineto", true)).kineto);
  request.set_framework(v1::FRAMEWORK_PYTHON);
  EXPECT_TRUE(ChoosePath(request, Reached("cupti", true)).kineto);
  EXPECT_THAT(ChoosePath(request, Reached("cupti", false)).refused, HasSubstr("KINETO_USE_DAEMON"));
}

TEST(ChoosePath, UsesTheRequestedPathOrGivesTheReason) {
  v1::TraceRequest request;
  request.set_via("kineto");
  EXPECT_TRUE(ChoosePath(request, Reached("cupti", true)).kineto);
  EXPECT_THAT(ChoosePath(request, Reached("cupti", false)).refused, HasSubstr("KINETO_USE_DAEMON"));
  request.set_via("cupti");
  EXPECT_FALSE(ChoosePath(request, Reached("cupti", true)).kineto);
  EXPECT_THAT(ChoosePath(request, Reached("kineto", true)).refused, HasSubstr("--via kineto"));
  request.set_via("nsys");
  EXPECT_FALSE(CheckVia(request, {}).ok());
}

TEST(RankList, JoinsRuns) {
  EXPECT_EQ(RankList({3, 1, 2, 0, 7, 9, 10, 10}), "0-3, 7, 9, 10");
  EXPECT_EQ(RankList({}), "");
}

}  // namespace
}  // namespace lockstep::aggregator
