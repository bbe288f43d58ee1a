#include "views/host/operators.h"

#include <gtest/gtest.h>

#include "views/host/frames_fixture.h"

namespace lockstep::views {
namespace {

using capture::FrameKind;
using capture::TimelineBuilder;
using capture::Us;

constexpr double kLaunchUs = 2;  // length of a launch that TimelineBuilder adds

capture::Capture TwoOperatorRanks() {
  TimelineBuilder t;
  for (int rank = 0; rank < 2; ++rank) {
    t.Rank(rank)
        .Kernel("volta_h884gemm", 100, 40, 7, 22)
        .Kernel("relu", 140, 10, 7, 45)
        .Kernel("volta_sgemm", 150, 60, 7, 62);
  }
  capture::Capture capture = t.Build();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    FramesBuilder(capture)
        .Frame("forward", 0, 55, FrameKind::kAnnotation)
        .Frame("aten::linear", 10, 40)
        .With("[[8, 4], [4, 4]]", "model.py(3): forward;train.py(9): main")
        .Frame("aten::addmm", 20, 30)
        .With("[[8, 4]]")
        .Frame("aten::relu", 42, 50)
        .Frame("aten::linear", 60, 70)
        .With("[[2, 4], [4, 4]]", "model.py(3): forward;train.py(12): main")
        .Allocation(25, 1024)
        .Allocation(12, 512, -1)
        .Allocation(45, -1000)
        .To(rank);
  }
  return capture;
}

const OperatorRow& Named(const Operators& ops, std::string_view name, std::string_view shapes = "",
                         RankId rank = kNoRank) {
  for (const OperatorRow& row : ops.rows) {
    if (row.name == name && row.shapes == shapes && row.rank == rank) return row;
  }
  ADD_FAILURE() << "no row " << name << " " << shapes;
  return ops.rows[0];
}

TEST(Operators, AllStepsAreOneRow) {
  TimelineBuilder t;
  t.Rank(0).Kernel("relu", 10, 5, 7, 2);
  capture::Capture capture = t.Build();
  FramesBuilder(capture)
      .Frame("ProfilerStep#4", 0, 20, FrameKind::kAnnotation)
      .Frame("ProfilerStep#5", 20, 50, FrameKind::kAnnotation)
      .To(0);
  const Operators ops = OperatorsOf(capture, {});
  ASSERT_EQ(ops.rows.size(), 1u);
  EXPECT_EQ(ops.rows[0].name, "ProfilerStep");
  EXPECT_EQ(ops.rows[0].calls, 2u);
  EXPECT_EQ(ops.rows[0].device, Nanos::Micros(5));
}

TEST(Operators, SumOverCallsAndRanks) {
  const capture::Capture capture = TwoOperatorRanks();
  const Operators ops = OperatorsOf(capture, {});
  const OperatorRow& linear = Named(ops, "aten::linear");
  EXPECT_EQ(linear.calls, 4u);
  EXPECT_EQ(linear.host, Us(80));
  EXPECT_EQ(linear.self_host, Us(60));
  EXPECT_EQ(linear.device, Us(200));
  EXPECT_EQ(linear.self_device, Us(120));
  EXPECT_TRUE(linear.tensor_core_eligible);
  EXPECT_EQ(linear.tensor_core, Us(80));
  EXPECT_EQ(linear.self_tensor_core, Nanos());
  EXPECT_EQ(Named(ops, "aten::addmm").self_tensor_core, Us(80));
  EXPECT_EQ(Named(ops, "forward").kind, "annotation");
  EXPECT_EQ(Named(ops, "forward").device, Us(100));
  EXPECT_FALSE(Named(ops, "aten::relu").tensor_core_eligible);
  EXPECT_EQ(Named(ops, "aten::addmm").self_runtime, Us(2 * kLaunchUs));
  EXPECT_EQ(linear.self_runtime, Us(2 * kLaunchUs)) << "of the second linear; the first one's is its addmm's";
  EXPECT_EQ(ops.totals.self_device, Us(220));
  EXPECT_EQ(ops.totals.self_host, Us(2 * (55 + 10)));
}

TEST(Operators, MemoryGoesToTheInnermostOperator) {
  const capture::Capture capture = TwoOperatorRanks();
  const Operators ops = OperatorsOf(capture, {});
  EXPECT_EQ(Named(ops, "aten::addmm").self_memory->device, 2048);
  EXPECT_EQ(Named(ops, "aten::linear").self_memory->device, 0);
  EXPECT_EQ(Named(ops, "aten::linear").memory->device, 2048);
  EXPECT_EQ(Named(ops, "aten::linear").self_memory->host, 1024);
  EXPECT_EQ(Named(ops, "aten::relu").memory->device, -2000);
  EXPECT_EQ(Named(ops, "aten::relu").allocations, 0u);
  EXPECT_EQ(Named(ops, "forward").memory->device, 48);
}

TEST(Operators, GroupsByShapeStackAndRank) {
  const capture::Capture capture = TwoOperatorRanks();
  const Operators shapes = OperatorsOf(capture, {.by_shape = true});
  EXPECT_EQ(Named(shapes, "aten::linear", "[[8, 4], [4, 4]]").calls, 2u);
  EXPECT_EQ(Named(shapes, "aten::linear", "[[2, 4], [4, 4]]").device, Us(120));
  const auto linears = [&](int depth) {
    std::vector<std::string> stacks;
    for (const OperatorRow& row : OperatorsOf(capture, {.stack_depth = depth}).rows) {
      if (row.name == "aten::linear") stacks.push_back(row.stack);
    }
    std::sort(stacks.begin(), stacks.end());
    return stacks;
  };
  EXPECT_EQ(linears(1), (std::vector<std::string>{"model.py(3): forward"}));
  EXPECT_EQ(linears(2), (std::vector<std::string>{"model.py(3): forward;train.py(12): main",
                                                  "model.py(3): forward;train.py(9): main"}));
  EXPECT_EQ(linears(9).size(), 2u);
  EXPECT_EQ(Named(OperatorsOf(capture, {.by_rank = true}), "aten::relu", "", RankId(1)).calls, 1u);
}

TEST(Operators, HasNoRowsWithoutFrames) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 10);
  EXPECT_TRUE(OperatorsOf(t.Build(), {}).rows.empty());
}

}  // namespace
}  // namespace lockstep::views
