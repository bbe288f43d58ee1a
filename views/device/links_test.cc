#include "views/device/links.h"

#include <gtest/gtest.h>

#include "views/host/frames_fixture.h"

namespace lockstep::views {
namespace {

using capture::FrameKind;
using capture::TimelineBuilder;
using capture::Us;

TEST(Links, ActivitiesHaveTheirCallAndItsOperator) {
  TimelineBuilder t;
  t.Rank(0).Kernel("gemm", 100, 30, 7, 15).Kernel("early", 50, 5).Copy(64, 140, 2, 9, 60);
  capture::Capture capture = t.Build();
  FramesBuilder(capture)
      .Frame("aten::linear", 10, 30)
      .Frame("aten::mm", 12, 20)
      .Frame("range", 55, 70, FrameKind::kAnnotation)
      .To(0);
  const std::vector<LaunchLink> links = LaunchLinksOf(capture);
  ASSERT_EQ(links.size(), 3u);
  EXPECT_EQ(links[0].activity, "early");
  EXPECT_FALSE(links[0].call_start) << "its launch was not recorded";
  EXPECT_EQ(links[1].op, "aten::mm");
  EXPECT_EQ(*links[1].op_start, TimelineBuilder::At(12));
  EXPECT_EQ(*links[1].call_start, TimelineBuilder::At(15));
  EXPECT_EQ(links[2].op, "") << "a range is no operator";
  EXPECT_EQ(links[2].kind, capture::ActivityKind::kMemcpy);
}

TEST(Links, LinksBackwardToForwardOperatorsBySequenceNumber) {
  TimelineBuilder t;
  t.Rank(0).Kernel("gemm", 100, 30, 7, 15).Kernel("dgrad", 300, 40, 7, 205);
  capture::Capture capture = t.Build();
  const auto forward = [](int64_t sequence) { return capture::FrameDetail{.sequence = sequence}; };
  const auto backward = [](int64_t sequence) {
    return capture::FrameDetail{.sequence = sequence, .forward_thread = ThreadId(1)};
  };
  FramesBuilder(capture)
      .Frame("aten::linear", 10, 30)
      .Detail(forward(5))
      .Frame("aten::mm", 12, 20)
      .Detail(forward(5))
      .Frame("aten::relu", 40, 50)
      .Detail(forward(6))
      .Frame("autograd::engine: MmBackward0", 200, 230, FrameKind::kOperator, 2)
      .Detail(backward(5))
      .Frame("MmBackward0", 201, 229, FrameKind::kOperator, 2)
      .Detail(backward(5))
      .Frame("LostBackward0", 240, 250, FrameKind::kOperator, 2)
      .Detail(backward(99))
      // The next iteration starts again at 5, after the backward pass of this one.
      .Frame("aten::linear", 500, 520)
      .Detail(forward(5))
      .To(0);
  for (capture::ApiCall& call : capture.ranks[0].api_calls) {
    if (call.start > TimelineBuilder::At(100)) call.thread = ThreadId(2);
  }
  const std::vector<BackwardLink> links = BackwardLinksOf(capture);
  ASSERT_EQ(links.size(), 1u) << "of nested ones the outermost; none for a number without a forward operator";
  EXPECT_EQ(links[0].forward, "aten::linear");
  EXPECT_EQ(links[0].forward_start, TimelineBuilder::At(10));
  EXPECT_EQ(links[0].backward, "autograd::engine: MmBackward0");
  EXPECT_EQ(links[0].forward_device, Us(30));
  EXPECT_EQ(links[0].backward_device, Us(40));
}

}  // namespace
}  // namespace lockstep::views
