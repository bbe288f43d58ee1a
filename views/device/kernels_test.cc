#include "views/device/kernels.h"

#include <gtest/gtest.h>

#include "views/host/frames_fixture.h"

namespace lockstep::views {
namespace {

using capture::TimelineBuilder;
using capture::Us;

capture::Capture SomeKernels() {
  TimelineBuilder t;
  t.Rank(0)
      .Kernel("gemm", 100, 10, 7, 5)
      .Kernel("gemm", 120, 30, 7, 25)
      .Kernel("relu", 160, 4, 7, 26)
      .Copy(100, 170, 50);
  t.Rank(1).Kernel("gemm", 100, 20);
  capture::Capture capture = t.Build();
  capture::RankData& rank = capture.ranks[0];
  rank.properties.sms = 4;
  for (const uint32_t blocks : {8u, 2u}) {
    capture::KernelDetail detail{.grid = {blocks, 1, 1}, .block = {128, 1, 1}, .registers = 32};
    detail.occupancy_percent = blocks == 8 ? 50 : 10;
    rank.kernel_details.push_back(detail);
  }
  rank.activities[0].detail = 0;
  rank.activities[1].detail = 1;
  rank.activities[2].detail = capture::kNone;
  FramesBuilder(capture)
      .Frame("aten::mm", 0, 10)
      .Frame("aten::matmul", 20, 40)
      .Frame("aten::mm", 21, 30)
      .To(0);
  return capture;
}

TEST(Kernels, HasARowPerNameWithMeansWeightedByLength) {
  const capture::Capture capture = SomeKernels();
  const std::vector<KernelRow> rows = KernelsOf(capture, {});
  ASSERT_EQ(rows.size(), 2u) << "a copy is no kernel";
  EXPECT_EQ(rows[0].name, "gemm");
  EXPECT_EQ(rows[0].calls, 3u);
  EXPECT_EQ(rows[0].total, Us(60));
  EXPECT_EQ(rows[0].least, Us(10));
  EXPECT_EQ(rows[0].most, Us(30));
  EXPECT_DOUBLE_EQ(rows[0].fraction, 60.0 / 64);
  // 10 us of 2 blocks, and 30 us of half a block. The other rank has no value.
  EXPECT_DOUBLE_EQ(*rows[0].blocks_per_sm, (10 * 2 + 30 * 0.5) / 40);
  EXPECT_NEAR(*rows[0].occupancy, (10 * 0.5 + 30 * 0.1) / 40, 1e-12);
  EXPECT_FALSE(rows[1].blocks_per_sm);
  EXPECT_FALSE(rows[0].launch);
}

TEST(Kernels, GroupingByLaunchSeparatesParametersAndOperators) {
  const capture::Capture capture = SomeKernels();
  const std::vector<KernelRow> rows = KernelsOf(capture, {.by_rank = true, .by_launch = true});
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].launched_by, "aten::mm");
  EXPECT_TRUE(rows[0].tensor_core_eligible);
  EXPECT_EQ(rows[0].launch->grid[0], 2u);
  EXPECT_EQ(rows[1].rank, RankId(1));
  EXPECT_EQ(rows[1].launched_by, "");
  EXPECT_EQ(rows[2].launch->grid[0], 8u);
  EXPECT_EQ(rows[3].launched_by, "aten::mm") << "of two, the inner one";
}

}  // namespace
}  // namespace lockstep::views
