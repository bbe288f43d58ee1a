#include "views/device/distributed.h"

#include <gtest/gtest.h>

#include "analysis/prepare/launches.h"
#include "views/device/overview.h"
#include "views/host/frames_fixture.h"

namespace lockstep::views {
namespace {

using capture::FrameKind;
using capture::TimelineBuilder;
using capture::Us;

// Two ranks run two steps of 100 us. Each step has a kernel of 40 us, and an all-reduce to which rank 1 comes
// 10 us late. On rank 0, the kernel hides the first 5 us of the all-reduce.
class TwoRanks : public ::testing::Test {
 protected:
  TwoRanks() {
    TimelineBuilder t;
    const uint32_t group = t.Group("dp", {0, 1});
    for (int rank = 0; rank < 2; ++rank) {
      const double late = rank * 10;
      for (int step = 0; step < 2; ++step) {
        const double at = step * 100;
        t.Rank(rank)
            .Step(step + 1, at, 100)
            .Kernel("gemm", at + 10, 40 + late, 7, at + 5)
            .Communication({.group = group, .bytes = 4096}, at + 45 + late, 30 - late, 15, at + 6);
      }
    }
    capture_ = t.Build();
    capture::Finish(capture_);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      FramesBuilder frames(capture_);
      for (int step = 0; step < 2; ++step) {
        const double at = step * 100;
        const auto kind = FrameKind::kOperator;
        frames.Frame("aten::mm", at + 4, at + 8).Frame("nccl:all_reduce", at + 20, at + 30 + rank * 2, kind);
        frames.Detail({.shapes = capture_.strings.Intern("[[8, 2], []]"),
                       .types = capture_.strings.Intern("[\"float\", \"long int\"]")});
      }
      frames.Frame("nccl:broadcast", 180, 183).To(rank);
    }
    matches_ = capture::Match(capture_);
    clock_ = capture::EstimateClocks(capture_, matches_);
    std::vector<analysis::CallIndex> calls;
    for (const capture::RankData& rank : capture_.ranks) calls.emplace_back(rank);
    steps_ = analysis::FindSteps(capture_, clock_, calls);
  }

  Distributed Of(CommunicationRule rule, OpRanks ranks = OpRanks::kTogether) {
    return DistributedOf({capture_, matches_, clock_, steps_}, rule, ranks);
  }

  capture::Capture capture_;
  capture::Matches matches_;
  capture::ClockModel clock_;
  analysis::Steps steps_;
};

TEST_F(TwoRanks, LockstepsRuleSplitsCommunicationIntoOverlapTransferAndWaiting) {
  const Distributed distributed = Of(CommunicationRule::kLockstep);
  ASSERT_EQ(distributed.steps.size(), 6u);
  const CommunicationStep& mean = distributed.steps[0];
  EXPECT_TRUE(mean.mean);
  EXPECT_EQ(mean.length, Us(100));
  EXPECT_EQ(mean.computation, Us(35));
  EXPECT_EQ(mean.overlap, Us(5));
  EXPECT_EQ(mean.communication, Us(25));
  EXPECT_EQ(mean.other, Us(35));
  EXPECT_EQ(mean.transfer, Us(20));
  EXPECT_EQ(mean.wait, Us(10));
  EXPECT_EQ(mean.unsplit, Nanos());
  EXPECT_EQ(distributed.steps[3].rank, RankId(1));
  EXPECT_EQ(distributed.steps[3].wait, Nanos());
  EXPECT_EQ(distributed.steps[4].step, 1);
  for (const CommunicationStep& s : distributed.steps)
    EXPECT_EQ(s.computation + s.overlap + s.communication + s.other, s.length);
}

TEST_F(TwoRanks, GroupsOperationsOverRanksOrPerRank) {
  const Distributed together = Of(CommunicationRule::kLockstep);
  ASSERT_EQ(together.ops.size(), 1u);
  EXPECT_EQ(together.ops[0].calls, 4u);
  EXPECT_EQ(together.ops[0].bytes, 4 * 4096);
  EXPECT_EQ(together.ops[0].latency, Us(100));
  EXPECT_EQ(together.ops[0].transfer, Us(80));
  EXPECT_EQ(together.ops[0].wait, Us(20));
  const Distributed each = Of(CommunicationRule::kLockstep, OpRanks::kEach);
  ASSERT_EQ(each.ops.size(), 2u);
  EXPECT_EQ(each.ops[1].rank, RankId(1));
  EXPECT_EQ(each.ops[1].latency, Us(40));
}

TEST_F(TwoRanks, TensorBoardsRuleUsesHostFrames) {
  const Distributed distributed = Of(CommunicationRule::kTensorBoard, OpRanks::kEach);
  EXPECT_FALSE(distributed.withheld);
  const CommunicationStep& first = distributed.steps[1];
  EXPECT_EQ(first.length, Us(100));
  // Every kernel counts as computation, from 10 to 75 us. The frame from 20 to 30 us is inside that time.
  EXPECT_EQ(first.computation, Us(55));
  EXPECT_EQ(first.overlap, Us(10));
  EXPECT_EQ(first.communication, Nanos());
  EXPECT_EQ(first.transfer, Us(10));
  EXPECT_EQ(first.wait, Nanos());
  const CommunicationStep& other = distributed.steps[4];
  EXPECT_EQ(other.rank, RankId(1));
  EXPECT_EQ(other.transfer, Us(10)) << "as long as the shortest";
  EXPECT_EQ(other.wait, Us(2));
  ASSERT_EQ(distributed.ops.size(), 4u);
  EXPECT_EQ(distributed.ops[0].name, "nccl:all_reduce");
  EXPECT_EQ(distributed.ops[0].calls, 2u);
  EXPECT_EQ(distributed.ops[0].bytes, 2 * (8 * 2 * 4 + 8));
  EXPECT_EQ(distributed.ops[1].bytes, 0);
}

// Kineto files of Lockstep have an annotation around each launch of communication, for TensorBoard's plugin.
TEST_F(TwoRanks, TensorBoardsRuleAddsTheKernelsOfLockstepsAnnotations) {
  for (uint32_t rank = 0; rank < 2; ++rank) {
    FramesBuilder frames(capture_);
    for (const double at : {0.0, 100.0}) {
      frames.Frame("aten::mm", at + 4, at + 8);
      frames.Frame("nccl:all_reduce", at + 6, at + 7, FrameKind::kInferred);
    }
    frames.To(rank);
  }
  const Distributed distributed = Of(CommunicationRule::kTensorBoard, OpRanks::kEach);
  EXPECT_FALSE(distributed.withheld);
  const CommunicationStep& first = distributed.steps[1];
  EXPECT_EQ(first.length, Us(100));
  EXPECT_EQ(first.computation, Us(35)) << "without the kernel of the all-reduce";
  EXPECT_EQ(first.overlap, Us(5));
  EXPECT_EQ(first.communication, Us(26)) << "1 us of the launch and 25 us of the kernel";
  EXPECT_EQ(first.transfer, Us(21)) << "the shortest launch and the shortest kernel";
  EXPECT_EQ(first.wait, Us(10));
  ASSERT_EQ(distributed.ops.size(), 2u);
  EXPECT_EQ(distributed.ops[0].calls, 2u);
  EXPECT_EQ(distributed.ops[0].latency, Us(62));
}

TEST_F(TwoRanks, TensorBoardsRuleComparesNothingIfCountsDiffer) {
  FramesBuilder(capture_).Frame("nccl:all_reduce", 10, 20).To(1);
  const Distributed distributed = Of(CommunicationRule::kTensorBoard);
  EXPECT_TRUE(distributed.withheld);
  EXPECT_TRUE(distributed.ops.empty());
  EXPECT_FALSE(distributed.steps.empty());
}

TEST_F(TwoRanks, TheOverviewSumsToTheStepByBothRules) {
  for (const OverviewRule rule : {OverviewRule::kLockstep, OverviewRule::kTensorBoard}) {
    const std::vector<RankOverview> rows = OverviewOf(capture_, steps_, rule);
    ASSERT_EQ(rows.size(), 2u);
    ASSERT_EQ(rows[0].steps.size(), 2u);
    for (const StepTime& step : rows[0].steps) EXPECT_EQ(step.breakdown.Total(), Us(100));
    EXPECT_EQ(rows[0].mean.Total(), Us(100));
    const bool ours = rule == OverviewRule::kLockstep;
    EXPECT_EQ(rows[0].mean.kernel, ours ? Us(40) : Us(65));
    EXPECT_EQ(rows[0].mean.communication, ours ? Us(25) : Us(1.5))
        << "one frame of 3 us lies beside the kernels";
    EXPECT_EQ(rows[0].steps[0].number, 1);
  }
}

TEST_F(TwoRanks, EligibleTimeCountsOperatorsThatCouldUseTensorCores) {
  const std::vector<RankOverview> rows = OverviewOf(capture_, steps_, OverviewRule::kLockstep);
  // Both launches of a step are inside aten::mm.
  EXPECT_DOUBLE_EQ(*rows[0].eligible_fraction, 1.0);
  EXPECT_DOUBLE_EQ(*rows[0].eligible_tensor_core_fraction, 0.0);
}

}  // namespace
}  // namespace lockstep::views
