#include "views/host/flame.h"

#include <gtest/gtest.h>

#include "views/host/frames_fixture.h"

namespace lockstep::views {
namespace {

using capture::FrameKind;
using capture::TimelineBuilder;

// Rank 0 has two steps with a kernel each, launched at 12 and 112 us, and a copy whose call is unknown. Rank
// 1 has a kernel only.
class FlameTest : public ::testing::Test {
 protected:
  FlameTest() {
    TimelineBuilder t;
    t.Rank(0).Step(4, 0, 90).Step(5, 100, 90);
    t.Rank(0).Kernel("gemm<a;b>", 20, 30, 7, 12).Kernel("gemm<a;b>", 120, 40, 7, 112).Copy(64, 170, 5);
    t.Rank(1).Kernel("gemm<a;b>", 20, 10);
    capture_ = t.Build();
    capture_.ranks[0].activities[2].correlation = CorrelationId(0);
    AddFrames();
  }

  void AddFrames() {
    FramesBuilder(capture_)
        .Frame("ProfilerStep#4", 0, 90, FrameKind::kAnnotation)
        .Frame("aten::linear", 10, 40)
        .Frame("aten::mm", 11, 31)
        .Frame("ProfilerStep#5", 100, 190, FrameKind::kAnnotation)
        .Frame("aten::linear", 110, 130)
        .With("", "linear.py(9): forward;train.py(3): main")
        .Frame("aten::mm", 150, 155)
        .To(0);
  }

  std::string Folded(const FlameOptions& options) { return FoldedStacks(BuildFlame(capture_, options)); }

  capture::Capture capture_;
};

TEST_F(FlameTest, SumsTheHostsTimeOfAllSteps) {
  EXPECT_EQ(Folded({.kind = FlameKind::kHost}),
            "ProfilerStep 125000\n"
            "ProfilerStep;aten::linear 30000\n"
            "ProfilerStep;aten::linear;aten::mm 20000\n"
            "ProfilerStep;aten::mm 5000\n");
}

TEST_F(FlameTest, SumsTheDevicesTimeByTheFramesAroundTheLaunch) {
  const FlameTree tree = BuildFlame(capture_, {.kind = FlameKind::kDevice});
  EXPECT_EQ(FoldedStacks(tree),
            "Memcpy 5000\n"
            "ProfilerStep;aten::linear;aten::mm;gemm<a,b> 30000\n"
            "ProfilerStep;aten::linear;gemm<a,b> 40000\n"
            "gemm<a,b> 10000\n")
      << "a ';' would end the name; rank 1 has no frames";
  ASSERT_EQ(tree.nodes[0].name, "ProfilerStep");
  EXPECT_EQ(tree.nodes[0].total, Nanos(70000));
  EXPECT_EQ(tree.nodes[0].self, Nanos());
}

TEST_F(FlameTest, ARankMayBeTheOutermostFrame) {
  EXPECT_EQ(Folded({.kind = FlameKind::kDevice, .roots = FlameRoots::kRanks}),
            "rank 0;Memcpy 5000\n"
            "rank 0;ProfilerStep;aten::linear;aten::mm;gemm<a,b> 30000\n"
            "rank 0;ProfilerStep;aten::linear;gemm<a,b> 40000\n"
            "rank 1;gemm<a,b> 10000\n");
}

TEST_F(FlameTest, OneRankAlone) {
  EXPECT_EQ(Folded({.kind = FlameKind::kDevice, .rank = RankId(1)}), "gemm<a,b> 10000\n");
}

TEST_F(FlameTest, WithoutPythonFunctionsTheStacksOfOperatorsCount) {
  EXPECT_EQ(Folded({.kind = FlameKind::kPython}),
            "train.py(3): main;linear.py(9): forward;aten::linear 20000\n");
}

TEST_F(FlameTest, PythonFunctionsAreFramesOfTheirOwn) {
  FramesBuilder(capture_)
      .Frame("train.py(3): main", 0, 100, FrameKind::kPython)
      .Frame("nn.Module: Linear_0", 10, 50, FrameKind::kModule)
      .Frame("aten::linear", 20, 50)
      .To(0);
  EXPECT_EQ(Folded({.kind = FlameKind::kPython}),
            "train.py(3): main 60000\n"
            "train.py(3): main;nn.Module: Linear_0 10000\n"
            "train.py(3): main;nn.Module: Linear_0;aten::linear 30000\n");
  EXPECT_EQ(Folded({.kind = FlameKind::kHost}),
            "nn.Module: Linear_0 10000\n"
            "nn.Module: Linear_0;aten::linear 30000\n");
}

// The window before the first step and after the last one differs between captures, so a comparison leaves it
// out.
TEST_F(FlameTest, OnlyUsedStepsCountInAComparison) {
  capture_.ranks.resize(1);
  analysis::Steps steps;
  steps.source = analysis::StepSource::kRanges;
  steps.names = {5};
  steps.ranks.resize(1);
  steps.ranks[0].steps = {{.host = {TimelineBuilder::At(100), TimelineBuilder::At(190)}}};
  steps.ranks[0].of_activity = {-1, 0, 0};
  const FlameTree all = BuildFlame(capture_, {.kind = FlameKind::kDevice});
  const FlameTree used = BuildFlame(capture_, {.kind = FlameKind::kDevice, .steps = &steps});
  EXPECT_EQ(FoldedDifference(all, used, {.before = 2, .after = 1}),
            "Memcpy 2500 5000\n"
            "ProfilerStep;aten::linear;aten::mm;gemm<a,b> 15000 0\n"
            "ProfilerStep;aten::linear;gemm<a,b> 20000 40000\n");
  EXPECT_EQ(Folded({.kind = FlameKind::kHost, .steps = &steps}),
            "ProfilerStep 65000\n"
            "ProfilerStep;aten::linear 20000\n"
            "ProfilerStep;aten::mm 5000\n");
}

}  // namespace
}  // namespace lockstep::views
