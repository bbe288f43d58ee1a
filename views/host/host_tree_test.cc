#include "views/host/host_tree.h"

#include <gtest/gtest.h>

#include "views/host/frames_fixture.h"

namespace lockstep::views {
namespace {

using capture::FrameKind;
using capture::TimelineBuilder;
using capture::Us;

const HostNode& Named(const capture::Capture& capture, const HostTree& tree, std::string_view name) {
  for (const HostNode& node : tree.nodes) {
    if (capture.Text(capture.ranks[0].frames->frames[node.frame].name) == name) return node;
  }
  ADD_FAILURE() << "no node " << name;
  return tree.nodes[0];
}

TEST(HostTree, ComputesSelfTimeAndDeviceTimeOfFrames) {
  TimelineBuilder t;
  // The kernels are launched in the inner operator, in the outer one, and between operators.
  t.Rank(0).Kernel("k1", 100, 30, 7, 22).Kernel("k2", 130, 10, 7, 40).Kernel("k3", 140, 5, 7, 90);
  capture::Capture capture = t.Build();
  FramesBuilder(capture)
      .Frame("outer", 10, 50)
      .Frame("inner", 20, 30)
      .Frame("other", 60, 70)
      .Frame("elsewhere", 0, 100, FrameKind::kOperator, 2)
      .To(0);
  const HostTree tree = BuildHostTree(capture, ProcessesOf(capture)[0], kOperatorsAndAnnotations);

  const HostNode& outer = Named(capture, tree, "outer");
  EXPECT_EQ(outer.host, Us(40));
  EXPECT_EQ(outer.self_host, Us(30));
  EXPECT_EQ(outer.self_device, Us(10));
  EXPECT_EQ(outer.device, Us(40));
  const HostNode& inner = Named(capture, tree, "inner");
  EXPECT_EQ(inner.self_host, Us(10));
  EXPECT_EQ(inner.device, Us(30));
  EXPECT_EQ(&tree.nodes[inner.parent], &outer);
  EXPECT_EQ(Named(capture, tree, "other").device, Nanos());
  EXPECT_EQ(Named(capture, tree, "elsewhere").device, Nanos()) << "another thread's";
  ASSERT_EQ(tree.launches.size(), 3u);
  EXPECT_EQ(tree.launches[2].node, capture::kNone);
}

TEST(HostTree, IgnoresFramesOfOtherKinds) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 100, 30, 7, 22);
  capture::Capture capture = t.Build();
  FramesBuilder(capture)
      .Frame("op", 10, 50)
      .Frame("def f()", 20, 40, FrameKind::kPython)
      .Frame("sub", 21, 30)
      .To(0);
  const HostTree tree = BuildHostTree(capture, ProcessesOf(capture)[0], kOperatorsAndAnnotations);
  ASSERT_EQ(tree.nodes.size(), 2u);
  EXPECT_EQ(Named(capture, tree, "op").self_host, Us(31));
}

TEST(HostTree, CountsCrossingFramesAndToleratesRounding) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 100, 30);
  capture::Capture capture = t.Build();
  FramesBuilder(capture)
      .Frame("a", 0, 50)
      .Frame("crosses", 40, 60)
      .Frame("b", 100, 150)
      .Frame("rounded", 120, 151)
      .To(0);
  const HostTree tree = BuildHostTree(capture, ProcessesOf(capture)[0], kOperatorsAndAnnotations);
  EXPECT_EQ(tree.crossing, 1u);
  EXPECT_EQ(Named(capture, tree, "a").self_host, Us(50));
  EXPECT_EQ(Named(capture, tree, "crosses").parent, capture::kNone);
  EXPECT_NE(Named(capture, tree, "rounded").parent, capture::kNone);
  EXPECT_EQ(Named(capture, tree, "b").self_host, Us(19));
}

TEST(HostTree, FindsTheInnermostFrameOfAMoment) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 100, 30);
  capture::Capture capture = t.Build();
  FramesBuilder(capture).Frame("a", 10, 50).Frame("b", 20, 30).To(0);
  const Process process = ProcessesOf(capture)[0];
  const HostTree tree = BuildHostTree(capture, process, kOperatorsAndAnnotations);
  const auto at = [&](double us, int64_t thread = 1) -> std::string {
    const uint32_t node = tree.At(*process.frames, ThreadId(thread), TimelineBuilder::At(us));
    return node == capture::kNone
               ? ""
               : std::string(capture.Text(process.frames->frames[tree.nodes[node].frame].name));
  };
  EXPECT_EQ(at(9), "");
  EXPECT_EQ(at(15), "a");
  EXPECT_EQ(at(25), "b");
  EXPECT_EQ(at(40), "a");
  EXPECT_EQ(at(51), "");
  EXPECT_EQ(at(25, 2), "");
}

}  // namespace
}  // namespace lockstep::views
