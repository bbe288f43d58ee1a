// Checks since when a rank counts as waiting, by the verdicts of ExplainHang.
#include "analysis/hang/waits.h"

#include <cstdint>
#include <vector>

#include "analysis/hang/hang_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

TEST_F(HangTest, AHostThatIsAheadOfItsGpuDoesNotWait) {
  for (int32_t r = 0; r < 4; ++r) {
    Enter(r, kWorld, Nanos::Seconds(100)).completed = true;
    In(r).operations[0].completed_ago = Nanos::Seconds(3);
  }
  for (const int32_t r : {0, 1, 3}) Enter(r).started = false;
  const HangExplanation explained = ExplainHang(job_, kAfter);
  EXPECT_EQ(explained.verdict, Verdict::kNoHang);
  EXPECT_EQ(explained.longest_wait, Nanos::Seconds(3));
  // The kernel of one rank has started, which waits for rank 2.
  In(1).operations[1].started = true;
  In(1).operations[1].started_ago = Nanos::Seconds(61);
  const HangFinding finding = Only();
  EXPECT_EQ(Numbers(finding.wait.late), std::vector<int32_t>{2});
  EXPECT_EQ(finding.wait.waited, Nanos::Seconds(61));
}

TEST_F(HangTest, AllGpusMayHaveOtherWork) {
  for (int32_t r = 0; r < 4; ++r) Enter(r).started = false;
  const HangExplanation explained = ExplainHang(job_, kAfter);
  EXPECT_EQ(explained.verdict, Verdict::kWaiting);
  ASSERT_EQ(explained.findings.size(), 1u);
  EXPECT_EQ(explained.findings[0].cause, HangCause::kNeverStarted);
  EXPECT_EQ(explained.findings[0].sentence,
            "the kernel of all_reduce #1 of world has not started on any of its 4 ranks, for 94 s: their "
            "GPUs do other work "
            "or are dead");
  for (int32_t r = 0; r < 4; ++r) In(r).operations[0].entered_ago = Nanos::Seconds(301);
  EXPECT_EQ(ExplainHang(job_, kAfter).verdict, Verdict::kHang) << "an earlier kernel does not end";
  for (int32_t r = 0; r < 4; ++r) In(r).operations[0].entered_ago = Nanos::Seconds(94);
  Rank(1).life = Life::kStopped;
  EXPECT_EQ(ExplainHang(job_, kAfter).verdict, Verdict::kHang);
}

TEST_F(HangTest, ARankWhoseKernelStartsLaterThanTheOthersIsLateSinceThen) {
  // After a long step of all GPUs, the kernels start one after the other.
  for (int32_t r = 0; r < 4; ++r) {
    Enter(r).started_ago = Nanos::Seconds(70);
    In(r).operations[0].completed = true;
    In(r).operations[0].completed_ago = Nanos::Seconds(70);
    Enter(r, kWorld, Nanos::Seconds(70)).started = r == 1;
  }
  In(1).operations[1].started_ago = Nanos::Seconds(1);
  EXPECT_EQ(ExplainHang(job_, kAfter).verdict, Verdict::kNoHang);
  In(1).operations[1].started_ago = Nanos::Seconds(61);
  EXPECT_EQ(Only().wait.waited, Nanos::Seconds(61));
  // After an evaluation on one rank, its host comes before its GPU.
  for (int32_t r = 0; r < 4; ++r) In(r).operations.pop_back();
  for (int32_t r = 0; r < 4; ++r) Enter(r, kWorld, Nanos::Seconds(r == 2 ? 1 : 300)).started = r != 2;
  EXPECT_EQ(ExplainHang(job_, kAfter).verdict, Verdict::kNoHang);
}

TEST_F(HangTest, AKernelThatHasEndedElsewhereMustStart) {
  for (int32_t r = 0; r < 4; ++r) Enter(r).started = false;
  // Its part of a broadcast has ended.
  In(0).operations[0].started = In(0).operations[0].completed = true;
  const HangFinding finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kNeverStarted);
  EXPECT_THAT(finding.sentence, testing::HasSubstr("never started on ranks 1-3"));
}

TEST_F(HangTest, AnOperationThatIsNotLaunchedWaitsSinceItsCall) {
  for (const int32_t r : {0, 1}) Join(r, kTensor, "tp_0", r, 2);
  for (int32_t r = 0; r < 4; ++r) {
    HangOperation& operation = Enter(r);
    operation.launched = operation.started = false;
  }
  // Another thread's communicator goes on.
  for (const int32_t r : {0, 1}) {
    Enter(r, kTensor).completed = true;
    In(r, kTensor).operations[0].completed_ago = Nanos::Seconds(2);
  }
  EXPECT_EQ(Only().cause, HangCause::kNeverLaunched);
}

TEST_F(HangTest, DataIsUnderWaySinceTheLastRankStarted) {
  for (int32_t r = 0; r < 4; ++r) Enter(r).started_ago = Nanos::Seconds(70 - r * 5);
  EXPECT_EQ(ExplainHang(job_, kAfter).verdict, Verdict::kNoHang);
  for (int32_t r = 0; r < 4; ++r) In(r).operations[0].started_ago = Nanos::Seconds(80 - r * 5);
  EXPECT_EQ(Only().wait.waited, Nanos::Seconds(65));
}

TEST_F(HangTest, AMessageIsUnderWaySinceBothHaveStarted) {
  AllEnterAndEnd();
  for (const int32_t r : {0, 1}) {
    HangOperation& message = Enter(r);
    --In(r).collectives_entered;
    message.number = 0;
    message.function = r == 0 ? "Send" : "Recv";
    message.peer = 1 - r;
    message.started_ago = Nanos::Seconds(r == 0 ? 1 : 94);
  }
  EXPECT_EQ(ExplainHang(job_, kAfter).verdict, Verdict::kNoHang);
  In(0).operations.back().started_ago = Nanos::Seconds(61);
  const HangFinding finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kStuck);
  EXPECT_EQ(finding.wait.waited, Nanos::Seconds(61));
}

}  // namespace
}  // namespace lockstep::analysis
