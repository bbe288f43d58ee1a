#include "analysis/hang/ras_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/hang/hang_fixture.h"

namespace lockstep::analysis {
namespace {

using Result = RasReport::Result;
using Status = RasMember::Status;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Ranks 0 and 1 are on node1, which is 10.0.0.1 for RAS, and ranks 2 and 3 on node2. Their pids are 1000 to
// 1003.
class RasReportTest : public HangTest {
 protected:
  RasReportTest() {
    state_.nccl_version = "2.28.9";
    state_.is_complete = true;
    RasCommunicator& world = state_.communicators.emplace_back();
    world.hash = kWorld;
    world.size = 4;
    for (int32_t number = 0; number < 4; ++number) {
      world.members[number] = {{number < 2 ? "10.0.0.1" : "10.0.0.2", 1000 + number}, Status::kRunning};
    }
    world.operations = {{"Broadcast", {{1, 4, {0, 1, 2, 3}}}}, {"AllReduce", {{42, 4, {0, 1, 2, 3}}}}};
  }
  RasCommunicator& World() { return state_.communicators[0]; }
  void RankIsLate(int32_t number) {
    World().operations[1].groups = {{41, 1, {number}}, {42, 3, {}}};
    for (int32_t i = 0; i < 4; ++i) {
      if (i != number) World().operations[1].groups[1].members.push_back(i);
    }
  }
  void RankIsSilent(int32_t number, Status status = Status::kUnresponsive) {
    World().members[number].status = status;
    for (RasOperation& operation : World().operations) {
      std::erase(operation.groups[0].members, number);
      operation.groups[0].size = operation.groups[0].members.size();
    }
  }
  RasReport Compare() const { return CompareRasReadings(state_, state_, job_, Nanos::Seconds(60)); }
  // A finding that rank 2 never entered the third collective.
  HangFinding NeverEntered() {
    AllEnterAndEnd();
    AllEnterAndEnd();
    for (const int32_t rank : {0, 1, 3}) Enter(rank);
    return Only();
  }

  RasState state_;
};

TEST_F(RasReportTest, EqualCountsAreNoDifference) {
  EXPECT_EQ(Compare().result, Result::kNoDifference);
  EXPECT_THAT(Compare().sentences, IsEmpty());
}

TEST_F(RasReportTest, ALateRankThatDoesNotMoveIsNamed) {
  RankIsLate(3);
  const RasReport report = Compare();
  EXPECT_EQ(report.result, Result::kStandsStill);
  EXPECT_FALSE(report.may_end);
  EXPECT_THAT(report.late_ranks, ElementsAre(RankId(3)));
  ASSERT_FALSE(report.sentences.empty());
  EXPECT_EQ(report.sentences[0],
            "RAS: rank 3 (node2, pid 1003) has called 41 all_reduce of communicator 000000000000000a where "
            "the 3 others "
            "have called 42");
  EXPECT_EQ(report.between, Nanos::Seconds(60));
}

TEST_F(RasReportTest, CountsThatChangeAreNotAHang) {
  RankIsLate(3);
  RasState before = state_;
  before.communicators[0].operations[1].groups[1].count = 41;
  before.communicators[0].operations[1].groups[0].count = 40;
  EXPECT_EQ(CompareRasReadings(before, state_, job_, Nanos::Seconds(1)).result, Result::kMoves);
}

TEST_F(RasReportTest, AnotherCommunicatorThatMovesIsNotAHang) {
  RankIsLate(3);
  state_.communicators.push_back(World());
  state_.communicators[1].hash = kTensor;
  state_.communicators[1].operations[1].groups = {{7, 4, {0, 1, 2, 3}}};
  RasState before = state_;
  before.communicators[1].operations[1].groups[0].count = 6;
  EXPECT_EQ(CompareRasReadings(before, state_, job_, Nanos::Seconds(1)).result, Result::kMoves);
  EXPECT_EQ(Compare().result, Result::kStandsStill);
}

TEST_F(RasReportTest, ALateRankThatComputesMayCome) {
  RankIsLate(3);
  Rank(3).cpu_share = 0.9;
  EXPECT_TRUE(Compare().may_end);
  // One that does not compute is enough for a hang.
  World().operations[1].groups = {{41, 2, {1, 3}}, {42, 2, {0, 2}}};
  EXPECT_FALSE(Compare().may_end);
}

TEST_F(RasReportTest, AnUnknownLateRankDoesNotCompute) {
  RankIsLate(3);
  Rank(3).cpu_share = 0.9;
  World().operations[1].groups[0].members.clear();  // RAS's text does not list large groups
  const RasReport report = Compare();
  EXPECT_EQ(report.result, Result::kStandsStill);
  EXPECT_FALSE(report.may_end);
  EXPECT_THAT(report.sentences[0], HasSubstr("1 member has called 41 all_reduce"));
}

TEST_F(RasReportTest, ASilentMemberIsLate) {
  RankIsSilent(2);
  EXPECT_EQ(Compare().result, Result::kStandsStill);
  EXPECT_THAT(Compare().sentences[0],
              HasSubstr("rank 2 (node2, pid 1002) of communicator 000000000000000a does not "
                        "answer RAS"));
  EXPECT_THAT(Compare().late_ranks, ElementsAre(RankId(2)));
  RasState before = state_;
  World().members[2].status = Status::kDead;
  // It has not moved, although RAS has given it up meanwhile.
  EXPECT_EQ(CompareRasReadings(before, state_, job_, Nanos::Seconds(1)).result, Result::kStandsStill);
  EXPECT_THAT(Compare().sentences[0], HasSubstr("is dead to RAS"));
}

TEST_F(RasReportTest, AMemberThatHasLeftIsNotLate) {
  RankIsSilent(2, Status::kNotInIt);
  EXPECT_EQ(Compare().result, Result::kNoDifference);
}

TEST_F(RasReportTest, AnAheadRankIsTheOddOne) {
  World().operations[1].groups = {{41, 3, {0, 1, 2}}, {42, 1, {3}}};
  const RasReport report = Compare();
  EXPECT_THAT(report.sentences[0], HasSubstr("rank 3 (node2, pid 1003) has called 42 all_reduce"));
  EXPECT_THAT(report.sentences[0], HasSubstr("where the 3 others have called 41"));
  EXPECT_THAT(report.late_ranks, ElementsAre(RankId(0), RankId(1), RankId(2)));
}

// In a container, RAS has other pids than the node.
TEST_F(RasReportTest, UnknownPidsAreMembers) {
  RankIsLate(3);
  World().members[2].process.pid = 7;
  const RasReport report = Compare();
  EXPECT_THAT(report.sentences[0], HasSubstr("member 3 (10.0.0.2, pid 1003) has called 41"));
  EXPECT_THAT(report.late_ranks, IsEmpty());
}

TEST_F(RasReportTest, AgreesWithAHang) {
  const HangFinding finding = NeverEntered();
  RankIsLate(2);
  const RasReport report = CheckWithRas(finding, job_, state_);
  EXPECT_EQ(report.result, Result::kAgrees);
  EXPECT_THAT(report.sentences,
              ElementsAre(HasSubstr("rank 2 (node2, pid 1002) has called 42 collectives where "
                                    "another has called 43")));
}

TEST_F(RasReportTest, AgreesIfTheLateRankIsSilent) {
  const HangFinding finding = NeverEntered();
  RankIsSilent(2);
  EXPECT_EQ(CheckWithRas(finding, job_, state_).result, Result::kAgrees);
}

TEST_F(RasReportTest, ContradictsAHang) {
  const HangFinding finding = NeverEntered();
  EXPECT_EQ(CheckWithRas(finding, job_, state_).result, Result::kContradicts);
  // Another rank is late.
  RankIsLate(1);
  EXPECT_EQ(CheckWithRas(finding, job_, state_).result, Result::kContradicts);
}

TEST_F(RasReportTest, AgreesThatAllHaveEntered) {
  for (int32_t rank = 0; rank < 4; ++rank) Enter(rank);
  const HangFinding finding = Only();
  ASSERT_EQ(finding.cause, HangCause::kStuck);
  EXPECT_EQ(CheckWithRas(finding, job_, state_).result, Result::kAgrees);
  RankIsLate(2);
  EXPECT_EQ(CheckWithRas(finding, job_, state_).result, Result::kContradicts);
}

TEST_F(RasReportTest, TheTextListsOnlyDifferences) {
  const HangFinding finding = NeverEntered();
  state_.is_complete = false;
  state_.communicators.clear();
  EXPECT_EQ(CheckWithRas(finding, job_, state_).result, Result::kContradicts);
  // Without all processes, a communicator may be missing for another reason.
  state_.silent = {{"10.0.0.2", 1002}};
  EXPECT_EQ(CheckWithRas(finding, job_, state_).result, Result::kSaysNothing);
}

TEST_F(RasReportTest, SaysNothingOfAnotherCommunicator) {
  const HangFinding finding = NeverEntered();
  World().hash = 77;
  EXPECT_EQ(CheckWithRas(finding, job_, state_).result, Result::kSaysNothing);
}

TEST_F(RasReportTest, SaysNothingOfMessages) {
  HangFinding finding = NeverEntered();
  finding.wait.number = 0;
  const RasReport report = CheckWithRas(finding, job_, state_);
  EXPECT_EQ(report.result, Result::kSaysNothing);
  EXPECT_THAT(report.sentences, ElementsAre("RAS does not count messages"));
}

}  // namespace
}  // namespace lockstep::analysis
