// Plants states of jobs that hang, and checks the cause, the ranks and the sentence.
#include "analysis/hang/explain_hang.h"

#include <string>
#include <vector>

#include "analysis/hang/hang_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

TEST_F(HangTest, AJobWhoseOperationsHaveEndedDoesNotHang) {
  EXPECT_EQ(ExplainHang(job_, kAfter).verdict, Verdict::kNoHang);
  AllEnterAndEnd();
  const HangExplanation explained = ExplainHang(job_, kAfter);
  EXPECT_EQ(explained.verdict, Verdict::kNoHang);
  EXPECT_EQ(explained.ranks_seen, 4u);
  EXPECT_EQ(explained.longest_wait, Nanos());
}

TEST_F(HangTest, AShortWaitIsNotAHang) {
  for (const int32_t r : {0, 1, 3}) Enter(r, kWorld, Nanos::Seconds(59));
  const HangExplanation explained = ExplainHang(job_, kAfter);
  EXPECT_EQ(explained.verdict, Verdict::kNoHang);
  EXPECT_EQ(explained.longest_wait, Nanos::Seconds(59));
}

TEST_F(HangTest, NamesTheRankThatNeverEntered) {
  AllEnterAndEnd();
  for (const int32_t r : {0, 1, 3}) Enter(r);
  const HangFinding finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kNeverEntered);
  EXPECT_EQ(Numbers(finding.wait.late), std::vector<int32_t>{2});
  EXPECT_EQ(finding.sentence,
            "rank 2 (node2, local rank 0) never entered all_reduce #2 of world; 3 ranks wait in it for 94 s");
  ASSERT_EQ(finding.reasons.size(), 1u);
  EXPECT_EQ(
      finding.reasons[0],
      "rank 2 (node2, local rank 0), pid 1002, uses 0% of a processor; last entered all_reduce #1 of world "
      "100 s ago, which has ended");
}

TEST_F(HangTest, SaysThatALateRankComputes) {
  for (const int32_t r : {0, 1, 3}) Enter(r);
  Rank(2).cpu_share = 0.98;
  const HangExplanation explained = ExplainHang(job_, kAfter);
  EXPECT_EQ(explained.verdict, Verdict::kWaiting);
  ASSERT_EQ(explained.findings.size(), 1u);
  EXPECT_TRUE(explained.findings[0].may_end);
  Rank(2).cpu_share = 0.1;
  EXPECT_EQ(ExplainHang(job_, kAfter).verdict, Verdict::kHang) << "idle threads poll";
}

TEST_F(HangTest, ARankThatReadsOrWritesMayCome) {
  for (const int32_t r : {0, 1, 3}) Enter(r);
  Rank(2).transfer_rate = 1.2e8;
  const HangExplanation explained = ExplainHang(job_, kAfter);
  EXPECT_EQ(explained.verdict, Verdict::kWaiting);
  ASSERT_EQ(explained.findings.size(), 1u);
  EXPECT_EQ(explained.findings[0].reasons.at(0),
            "rank 2 (node2, local rank 0), pid 1002, uses 0% of a processor, reads and writes 120.0 MB/s; "
            "entered nothing in "
            "world");
  Rank(2).transfer_rate = 9e5;
  EXPECT_EQ(ExplainHang(job_, kAfter).verdict, Verdict::kHang) << "logs and heartbeats are written too";
}

TEST_F(HangTest, SaysWhatALateRankExecutes) {
  for (const int32_t rank : {0, 1, 3}) Enter(rank);
  job_.ranks[2].stacks.emplace().python.frames = {{"/home/u/train/data.py", 57, "Loader.next"},
                                                  {"/home/u/train/main.py", 33, "step"},
                                                  {"loop.py", 0, "<module>"}};
  HangExplanation explained = ExplainHang(job_, kAfter);
  EXPECT_EQ(explained.verdict, Verdict::kHang);
  EXPECT_EQ(explained.findings[0].reasons.back(),
            "rank 2 is in Python at train/data.py:57 Loader.next, called from train/main.py:33 step, loop.py "
            "<module>");
  ASSERT_EQ(explained.findings[0].stacks.size(), 1u);
  EXPECT_EQ(explained.findings[0].stacks[0].rank, RankId(2));
  job_.ranks[2].moved = true;
  EXPECT_EQ(ExplainHang(job_, kAfter).verdict, Verdict::kWaiting);
}

TEST_F(HangTest, SaysWhyThereIsNoStack) {
  for (const int32_t rank : {0, 1, 3}) Enter(rank);
  job_.ranks[2].stacks.emplace() = {.python_problem = "Python 3.7 is not known",
                                    .native_problem = "no right"};
  const HangExplanation explained = ExplainHang(job_, kAfter);
  EXPECT_EQ(explained.findings[0].reasons.at(1),
            "rank 2's Python stack is not known: Python 3.7 is not known");
  EXPECT_EQ(explained.findings[0].reasons.at(2), "rank 2's native stack is not known: no right");
}

TEST_F(HangTest, ShowsNativeStacks) {
  for (const int32_t rank : {0, 1, 3}) Enter(rank);
  HangStacks& stacks = job_.ranks[2].stacks.emplace();
  stacks.python_problem = "the process runs no Python";
  stacks.native = {
      {.thread = "train", .frames = {{"libc.so.6", 0, "pause"}, {"train", 0, ""}, {"train", 0, "main"}}},
      {.thread = "nccl-proxy", .frames = {{"libnccl.so.2", 0, "ncclProxyProgress"}, {"", 0, ""}}}};
  const HangExplanation explained = ExplainHang(job_, kAfter);
  EXPECT_EQ(explained.findings[0].reasons.at(1),
            "rank 2's main thread is in pause (libc.so.6), called from train, main (train)");
  EXPECT_EQ(explained.findings[0].reasons.at(2),
            "rank 2's thread nccl-proxy is in ncclProxyProgress (libnccl.so.2), called from generated code");
  EXPECT_EQ(explained.findings[0].reasons.size(), 3u);
}

TEST_F(HangTest, NamesAStoppedRank) {
  for (const int32_t r : {0, 1, 3}) Enter(r);
  Rank(2).life = Life::kStopped;
  HangFinding finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kStopped);
  EXPECT_EQ(
      finding.sentence,
      "rank 2 (node2, local rank 0) is stopped, and never entered all_reduce #1 of world; 3 ranks wait in it "
      "for 94 s");
  Enter(2);
  finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kStopped) << "also if its kernel runs";
  EXPECT_EQ(finding.sentence,
            "rank 2 (node2, local rank 0) is stopped in all_reduce #1 of world; 3 ranks wait in it for 94 s");
}

TEST_F(HangTest, NamesARankThatHasEnded) {
  for (const int32_t r : {0, 1, 3}) Enter(r);
  Rank(2).life = Life::kEnded;
  Rank(2).end_reason = "the process ended";
  Rank(2).ended_ago = Nanos::Seconds(95);
  const HangFinding finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kEnded);
  EXPECT_NE(finding.reasons.at(0).find("ended 95 s ago (the process ended)"), std::string::npos);
}

TEST_F(HangTest, NamesARankThatHasEndedAndLeftNoCommunicator) {
  for (const int32_t r : {0, 1, 3}) Enter(r);
  Rank(2).life = Life::kEnded;
  Rank(2).communicators.clear();
  const HangFinding finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kEnded);
  EXPECT_EQ(Numbers(finding.wait.late), std::vector<int32_t>{2});
}

TEST_F(HangTest, OperationsOfAnEarlierStartDoNotCount) {
  for (int32_t r = 0; r < 4; ++r) {
    Enter(r);
    Rank(r).life = Life::kEnded;
  }
  EXPECT_EQ(ExplainHang(job_, kAfter).verdict, Verdict::kNoHang);
}

TEST_F(HangTest, NamesARankThatNoDaemonReports) {
  for (const int32_t r : {0, 1, 3}) Enter(r);
  job_.ranks.erase(job_.ranks.begin() + 2);
  const HangFinding finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kAbsent);
  EXPECT_EQ(finding.wait.unknown_members, std::vector<int32_t>{2});
  EXPECT_EQ(
      finding.sentence,
      "no daemon or dump reports member 2 of world in all_reduce #1 of world; 3 ranks wait in it for 94 s");
}

// Member 1 of tp_1 is rank 3. Rank 1, which has ended, is not a member.
TEST_F(HangTest, AMemberOfASmallerCommunicatorIsNotTheRankOfThatNumber) {
  Join(2, kTensor, "tp_1", 0, 2);
  Enter(2, kTensor);
  job_.ranks.erase(job_.ranks.begin() + 3);
  Rank(1).life = Life::kEnded;
  Rank(1).communicators.clear();
  const HangFinding finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kAbsent);
  EXPECT_EQ(finding.wait.unknown_members, std::vector<int32_t>{1});
  EXPECT_TRUE(finding.reasons.empty()) << finding.reasons[0];
}

TEST_F(HangTest, NamesARankThatIsAhead) {
  AllEnterAndEnd();
  Enter(1);
  const HangFinding finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kAhead);
  EXPECT_EQ(
      finding.sentence,
      "rank 1 (node1, local rank 1) is ahead: only it entered all_reduce #2 of world, 94 s ago; 3 ranks have "
      "not");
}

TEST_F(HangTest, NamesADifferentSizeOperationAndType) {
  for (int32_t r = 0; r < 4; ++r) Enter(r);
  In(3).operations[0].count = 2048;
  EXPECT_EQ(Only().sentence,
            "rank 3 (node2, local rank 1) entered all_reduce of 2,048 float32 as #1 of world, where 3 ranks "
            "entered all_reduce of 1,024 float32; they wait for 94 s");
  In(3).operations[0].count = 1024;
  In(3).operations[0].datatype = "ncclBfloat16";
  EXPECT_EQ(Only().cause, HangCause::kMismatch);
  In(3).operations[0].datatype = "ncclFloat32";
  In(3).operations[0].function = "ReduceScatter";
  EXPECT_EQ(Only().cause, HangCause::kMismatch);
  In(3).operations[0].function = "AllReduce";
  EXPECT_EQ(Only().cause, HangCause::kStuck) << "all are equal again";
}

TEST_F(HangTest, NamesARankWhoseSmallerOperationHasEnded) {
  for (int32_t r = 0; r < 4; ++r) Enter(r);
  In(3).operations[0].count = 512;
  In(3).operations[0].completed = true;
  Enter(3);
  const HangFinding finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kMismatch);
  EXPECT_EQ(Numbers(finding.wait.late), std::vector<int32_t>{3});
}

TEST_F(HangTest, NamesAKernelThatNeverStarted) {
  for (int32_t r = 0; r < 4; ++r) Enter(r);
  In(1).operations[0].started = false;
  HangFinding finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kNeverStarted);
  EXPECT_EQ(finding.sentence,
            "the kernel of all_reduce #1 of world never started on rank 1 (node1, local rank 1): its GPU is "
            "busy or "
            "dead; 3 ranks wait in it for 94 s");
  In(1).operations[0].launched = false;
  EXPECT_EQ(Only().cause, HangCause::kNeverLaunched);
}

TEST_F(HangTest, SaysThatTheDataDoesNotArrive) {
  for (int32_t r = 0; r < 4; ++r) Enter(r);
  EXPECT_EQ(
      Only().sentence,
      "all_reduce #1 of world runs on the GPUs of all its 4 ranks and does not end, for 94 s: the data does "
      "not arrive");
}

TEST_F(HangTest, PrintsTheCircleOfTwoCommunicatorsInOppositeOrder) {
  for (const int32_t r : {0, 1}) Join(r, kTensor, "tp_0", r, 2);
  job_.ranks.resize(2);
  job_.world_size = 2;
  for (const int32_t r : {0, 1}) In(r).ranks = 2;
  Enter(0, kWorld);
  Enter(1, kTensor, Nanos::Seconds(93));
  const HangFinding finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kCircle);
  ASSERT_EQ(finding.circle.size(), 1u);
  EXPECT_EQ(finding.sentence,
            "ranks wait for each other in different operations: rank 0 in all_reduce #1 of world, rank 1 in "
            "all_reduce #1 of tp_0, for 94 s");
}

TEST_F(HangTest, PrintsTheCircleOfTwoKernelsThatTheGpusStartedInOppositeOrder) {
  job_.ranks.resize(2);
  job_.world_size = 2;
  for (const int32_t r : {0, 1}) {
    In(r).ranks = 2;
    Join(r, kTensor, "tp_0", r, 2);
    Enter(r, kWorld);
    Enter(r, kTensor);
  }
  In(0, kTensor).operations[0].started = false;
  In(1, kWorld).operations[0].started = false;
  EXPECT_EQ(Only().cause, HangCause::kCircle);
}

TEST_F(HangTest, BlamesTheWaitAtTheEndOfTheChain) {
  for (const int32_t r : {2, 3}) Join(r, kTensor, "tp_1", r - 2, 2);
  for (const int32_t r : {0, 1}) Enter(r);
  Enter(2, kTensor, Nanos::Seconds(93));
  // Rank 2 waits for rank 3, and the world for both.
  const HangExplanation explained = ExplainHang(job_, kAfter);
  ASSERT_EQ(explained.findings.size(), 1u);
  EXPECT_EQ(explained.findings[0].cause, HangCause::kNeverEntered);
  EXPECT_EQ(explained.findings[0].wait.communicator, kTensor);
  EXPECT_EQ(Numbers(explained.findings[0].wait.late), std::vector<int32_t>{3});
  EXPECT_EQ(explained.other_waits, 1u);
}

TEST_F(HangTest, AMessageWaitsForItsPeer) {
  AllEnterAndEnd();
  HangOperation& message = Enter(1);
  --In(1).collectives_entered;
  message.number = 0;
  message.function = "Recv";
  message.peer = 0;
  const HangFinding finding = Only();
  EXPECT_EQ(finding.sentence,
            "rank 0 (node1, local rank 0) never entered recv of world; 1 rank waits in it for 94 s");
}

TEST_F(HangTest, WithoutEndsOnlyALateRankIsAHang) {
  for (int32_t r = 0; r < 4; ++r) {
    In(r).reports_kernels = false;
    Enter(r).started = false;
  }
  EXPECT_EQ(ExplainHang(job_, kAfter).verdict, Verdict::kNoHang) << "it may have ended";
  for (const int32_t r : {0, 1, 3}) Enter(r).started = false;
  EXPECT_EQ(Only().cause, HangCause::kNeverEntered);
}

TEST_F(HangTest, ACallThatAGraphCapturedDoesNotCountAsPending) {
  for (int32_t r = 0; r < 4; ++r) {
    Enter(r).launched = false;
    EnterAndEnd(r);
  }
  EXPECT_EQ(ExplainHang(job_, kAfter).verdict, Verdict::kNoHang);
}

TEST_F(HangTest, TheTableMayBeginAfterTheOperation) {
  AllEnterAndEnd();
  for (const int32_t r : {0, 1, 3}) {
    In(r).operations.clear();
    In(r).collectives_entered = 200;
    Enter(r).position = 201;
  }
  EXPECT_EQ(Only().sentence,
            "rank 2 (node2, local rank 0) never entered operation #2 of world; 3 ranks wait in it for 94 s");
}

TEST_F(HangTest, SurvivesAnyNumbers) {
  for (int32_t r = 0; r < 4; ++r) {
    HangOperation& operation = Enter(r, kWorld, Nanos::Max());
    operation.number = ~uint64_t{0};
    operation.peer = -7;
    In(r).rank = -5;
    In(r).ranks = 1 << 30;
  }
  EXPECT_EQ(ExplainHang(job_, kAfter).ranks_seen, 4u);
}

}  // namespace
}  // namespace lockstep::analysis
