// Checks every view: its columns have the stated names, its groupings and aliases exist, and it makes a table
// of any capture.
#include "views/catalog/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_split.h"
#include "analysis/explain/causes.h"
#include "capture/model/timeline_builder_fixture.h"
#include "views/catalog/json_table.h"
#include "views/host/frames_fixture.h"
#include "views/tables/text_table.h"

namespace lockstep::views {
namespace {

using capture::TimelineBuilder;

capture::Capture SmallJob() {
  TimelineBuilder t;
  const uint32_t group = t.Group("dp", {0, 1});
  for (int rank = 0; rank < 2; ++rank) {
    t.Rank(rank)
        .Step(1, 0, 100)
        .Kernel("volta_h884gemm", 10, 20, 7, 5)
        .AllReduce(group, 40, 20, 4096)
        .StreamSynchronize(15, 45, 20)
        .Step(2, 100, 100)
        .Kernel("relu", 110, 20, 7, 105)
        .AllReduce(group, 140, 20, 4096);
  }
  capture::Capture capture = t.Build();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    views::FramesBuilder(capture)
        .Frame("nn.Module: Net_0", 0, 50, capture::FrameKind::kModule)
        .Frame("aten::mm", 1, 8)
        .With("[[2, 2], [2, 2]]", "a.py(1): f")
        .Frame("aten::relu", 101, 108)
        .Allocation(3, 4096)
        .To(rank);
  }
  capture::Finish(capture);
  return capture;
}

std::vector<std::string_view> ShownColumns(const View& view, const ViewOptions& options) {
  const std::string_view shown = view.ColumnsOf(options);
  std::vector<std::string_view> columns;
  for (const auto name : absl::StrSplit(absl::string_view(shown.data(), shown.size()), ','))
    columns.emplace_back(name.data(), name.size());
  return columns;
}

class AllViews : public ::testing::TestWithParam<size_t> {
 protected:
  const View& view() const { return Views()[GetParam()]; }
  MadeView Make(const capture::Capture& capture, const ViewOptions& options = {}) {
    const report::Analysis analysis = report::Analyze(capture);
    return view().make(
        {.capture = capture, .analysis = [&]() -> const report::Analysis& { return analysis; }}, options);
  }
};

TEST_P(AllViews, ColumnNamesEndInTheirUnitAndHaveAMeaning) {
  const capture::Capture capture = SmallJob();
  const MadeView made = Make(capture);
  EXPECT_GT(made.grid.rows(), 0u);
  std::set<std::string_view> names;
  for (const Column& column : made.grid.table().columns) {
    EXPECT_TRUE(names.insert(column.name).second) << column.name;
    EXPECT_FALSE(column.meaning.empty()) << column.name;
    EXPECT_TRUE(column.name.ends_with(column.unit)) << column.name << " " << column.unit;
  }
  for (const Alias& alias : view().aliases) EXPECT_TRUE(names.count(alias.column)) << alias.name;
}

TEST_P(AllViews, EveryTableAndMethodHasTheDefaultColumns) {
  const capture::Capture capture = SmallJob();
  std::vector<ViewOptions> all = {{}};
  for (const SubTable& t : view().tables) all.push_back({.table = t.name});
  for (const Method& m : view().methods) {
    all.push_back({.method = m.name});
    for (const SubTable& t : view().tables) all.push_back({.table = t.name, .method = m.name});
  }
  for (const ViewOptions& options : all) {
    MadeView made = Make(capture, options);
    const std::vector<std::string_view> columns = ShownColumns(view(), options);
    EXPECT_TRUE(made.grid.Select(columns).ok()) << options.table << " " << made.grid.Select(columns);
    std::set<std::string_view> names;
    for (const Column& column : made.grid.table().columns)
      EXPECT_TRUE(names.insert(column.name).second) << column.name;
  }
}

TEST_P(AllViews, EveryGroupingMakesATable) {
  const capture::Capture capture = SmallJob();
  const size_t rows = Make(capture).grid.rows();
  for (const GroupName& group : view().groupings) {
    const size_t grouped = Make(capture, {.group_by = {group.group}}).grid.rows();
    if (view().groups_are_sums) {
      EXPECT_LE(grouped, rows) << group.name;
      EXPECT_GT(grouped, 0u) << group.name;
    } else {
      EXPECT_GE(grouped, rows) << group.name;
    }
  }
}

TEST_P(AllViews, AnEmptyCaptureGivesATable) {
  TimelineBuilder t;
  t.Rank(0);
  capture::Capture capture = t.Build();
  capture::Finish(capture);
  const MadeView made = Make(capture);
  EXPECT_FALSE(TextTable(made.grid, {.width = 80}).empty());
  EXPECT_THAT(JsonTable(view().name, made), ::testing::HasSubstr("\"rows\""));
}

INSTANTIATE_TEST_SUITE_P(Views, AllViews, ::testing::Range<size_t>(0, Views().size()),
                         [](const auto& view) { return std::string(Views()[view.param].name); });

TEST(HostView, ShowsTheAwaitedWorkAndItsTimeOnANarrowTerminal) {
  const capture::Capture capture = SmallJob();
  const report::Analysis analysis = report::Analyze(capture);
  for (const View& view : Views()) {
    if (view.name != "host") continue;
    MadeView made = view.make(
        {.capture = capture, .analysis = [&]() -> const report::Analysis& { return analysis; }}, {});
    ASSERT_TRUE(made.grid.Select(ShownColumns(view, {})).ok());
    EXPECT_THAT(TextTable(made.grid, {.width = 60}), ::testing::ContainsRegex("^rank +waited for +blocked"));
  }
}

TEST(OpsView, HasTheTotalsOfItsRows) {
  const capture::Capture capture = SmallJob();
  const report::Analysis analysis = report::Analyze(capture);
  const View& ops =
      *std::find_if(Views().begin(), Views().end(), [](const View& v) { return v.name == "ops"; });
  const MadeView made =
      ops.make({.capture = capture, .analysis = [&]() -> const report::Analysis& { return analysis; }}, {});
  const auto sum = [&made](std::string_view column) {
    int64_t total = 0;
    for (const int64_t ns : made.grid.cells(*made.grid.Find(column)).numbers()) total += ns;
    return analysis::LengthText(static_cast<double>(total));
  };
  EXPECT_NE(sum("self_host_ns"), sum("self_device_ns"));
  EXPECT_THAT(made.totals, ::testing::ElementsAre("self host total " + sum("self_host_ns"),
                                                  "self device total " + sum("self_device_ns")));
}

}  // namespace
}  // namespace lockstep::views
