#include "views/host/modules.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "views/host/frames_fixture.h"

namespace lockstep::views {
namespace {

using capture::FrameKind;
using capture::TimelineBuilder;
using capture::Us;

std::vector<std::string> PathsOf(const Modules& modules) {
  std::vector<std::string> paths;
  for (const ModuleRow& row : modules.rows) paths.push_back(row.path);
  return paths;
}

// Net calls Linear_0 twice and Linear_1 once, with Python frames between them. The kernels are launched in
// Linear_0's mm, in Net itself, and after all modules.
capture::Capture Net() {
  TimelineBuilder t;
  t.Rank(0).Kernel("gemm", 200, 30, 7, 15).Kernel("own", 240, 5, 7, 95).Kernel("later", 300, 7, 7, 150);
  capture::Capture capture = t.Build();
  FramesBuilder(capture)
      .Frame("nn.Module: Net_0", 0, 100, FrameKind::kModule)
      .Frame("net.py(3): forward", 1, 99, FrameKind::kPython)
      .Frame("nn.Module: Linear_0", 10, 30, FrameKind::kModule)
      .Frame("aten::linear", 12, 28)
      .Frame("aten::mm", 14, 20)
      .Frame("nn.Module: Linear_0", 40, 50, FrameKind::kModule)
      .Frame("aten::linear", 41, 45)
      .Frame("nn.Module: Linear_1", 60, 90, FrameKind::kModule)
      .Frame("aten::add", 92, 94)
      .Frame("aten::later", 140, 160)
      .To(0);
  return capture;
}

TEST(Modules, ModulesFormATreeWithSelfAndTotalTimes) {
  const capture::Capture capture = Net();
  const Modules modules = ModulesOf(capture, ModuleRanks::kTogether);
  EXPECT_EQ(modules.source, ModuleSource::kFrames);
  ASSERT_EQ(PathsOf(modules), (std::vector<std::string>{"Net_0", "Net_0/Linear_0", "Net_0/Linear_1"}));
  const ModuleRow& net = modules.rows[0];
  EXPECT_EQ(net.occurrences, 1u);
  EXPECT_EQ(net.operators, 1u) << "aten::add; the others are their modules'";
  EXPECT_EQ(net.host, Us(100));
  EXPECT_EQ(net.self_host, Us(100 - 20 - 10 - 30 - 2));
  EXPECT_EQ(net.device, Us(35));
  EXPECT_EQ(net.self_device, Us(5));
  const ModuleRow& linear = modules.rows[1];
  EXPECT_EQ(linear.depth, 1u);
  EXPECT_EQ(linear.occurrences, 2u);
  EXPECT_EQ(linear.operators, 2u) << "aten::mm is aten::linear's";
  EXPECT_EQ(linear.host, Us(30));
  EXPECT_EQ(linear.self_host, Us(4 + 6));
  EXPECT_EQ(linear.device, Us(30));
  EXPECT_EQ(linear.self_device, Us(30)) << "its operators' launches are its own";
  EXPECT_EQ(modules.rows[2].operators, 0u);
}

TEST(Modules, GroupsByRank) {
  capture::Capture capture = Net();
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 1);
  t.Rank(1).Kernel("k", 0, 1);
  capture::Capture two = t.Build();
  for (uint32_t r = 0; r < 2; ++r)
    FramesBuilder(two).Frame("nn.Module: Net_0", 0, 10 + r, FrameKind::kModule).To(r);
  EXPECT_EQ(ModulesOf(two, ModuleRanks::kTogether).rows[0].host, Us(21));
  const Modules each = ModulesOf(two, ModuleRanks::kEach);
  ASSERT_EQ(each.rows.size(), 2u);
  EXPECT_EQ(each.rows[1].rank, RankId(1));
  EXPECT_EQ(each.rows[1].host, Us(11));
}

TEST(Modules, UsesModuleHierarchiesOfOperatorsWithoutFrames) {
  TimelineBuilder t;
  t.Rank(0).Kernel("gemm", 200, 30, 7, 15);
  capture::Capture capture = t.Build();
  const auto in = [&](std::string_view modules) {
    return capture::FrameDetail{.modules = capture.strings.Intern(modules)};
  };
  FramesBuilder(capture)
      .Frame("aten::linear", 10, 30)
      .Detail(in("Net(Top).fc1(a.b)"))
      .Frame("aten::mm", 14, 20)
      .Detail(in("Net(Top).fc1(a.b)"))
      .Frame("aten::relu", 40, 45)
      .Detail(in("Net(Top)"))
      .Frame("aten::outside", 50, 55)
      .To(0);
  const Modules modules = ModulesOf(capture, ModuleRanks::kTogether);
  EXPECT_EQ(modules.source, ModuleSource::kHierarchy);
  ASSERT_EQ(PathsOf(modules), (std::vector<std::string>{"Net(Top)", "Net(Top)/fc1(a.b)"}))
      << "a point in brackets parts nothing";
  EXPECT_EQ(modules.rows[0].host, Us(25));
  EXPECT_EQ(modules.rows[0].self_host, Us(5));
  EXPECT_EQ(modules.rows[0].operators, 1u);
  EXPECT_EQ(modules.rows[1].host, Us(20)) << "aten::mm is part of aten::linear";
  EXPECT_EQ(modules.rows[1].device, Us(30));
}

TEST(Modules, AcceptsUnusualNamesAndDeepRecursion) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 1);
  capture::Capture capture = t.Build();
  FramesBuilder builder(capture);
  builder.Frame("nn.Module: ", 0, 10000, FrameKind::kModule);
  for (int i = 1; i < 1000; ++i) builder.Frame("nn.Module: a/b", i, 10000 - i, FrameKind::kModule);
  builder.To(0);
  const Modules modules = ModulesOf(capture, ModuleRanks::kTogether);
  EXPECT_EQ(modules.rows.size(), 256u);
  EXPECT_EQ(modules.rows[0].path, "(no name)");
  EXPECT_EQ(modules.rows[1].path, "(no name)/a:b");
  uint64_t calls = 0;
  for (const ModuleRow& row : modules.rows) calls += row.occurrences;
  EXPECT_EQ(calls, 1000u);
}

TEST(Modules, HasNoRowsWithoutModules) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 1);
  capture::Capture capture = t.Build();
  FramesBuilder(capture).Frame("aten::mm", 0, 5).To(0);
  const Modules modules = ModulesOf(capture, ModuleRanks::kTogether);
  EXPECT_TRUE(modules.rows.empty());
  EXPECT_EQ(modules.source, ModuleSource::kNone);
}

}  // namespace
}  // namespace lockstep::views
