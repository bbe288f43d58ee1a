// The catalog of views: one entry for each of `lockstep ops`, `lockstep kernels`, … The other folders of
// views/ compute the rows. The catalog defines the columns of each view once, for the terminal, CSV, JSON and
// the HTML report.
#ifndef LOCKSTEP_VIEWS_CATALOG_VIEWS_H_
#define LOCKSTEP_VIEWS_CATALOG_VIEWS_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "report/report.h"
#include "views/tables/grid.h"

namespace lockstep::views {

// Properties by which a view can divide its rows.
enum class GroupBy : uint8_t { kRank, kShape, kStack, kLaunch, kStep, kLayer, kOperator };

struct ViewOptions {
  std::vector<GroupBy> group_by;
  int stack_depth = 5;      // number of calls, with kStack
  std::string_view table;   // one of View::tables; empty: the first
  std::string_view method;  // one of View::methods; empty: the first
  bool Has(GroupBy what) const;
};

// The input of a view. Views that need an analysis call `analysis`; its result outlives the grid.
struct ViewInput {
  const capture::Capture& capture;
  std::function<const report::Analysis&()> analysis;
  std::vector<RankId> only = {};  // ranks to show, for views that compute with all ranks; empty: all
};

struct MadeView {
  Grid grid;
  // Remarks for the reader: data that the capture lacks, and rows that were left out.
  std::vector<std::string> notes;
  // Lines below the table for people: sums over all its rows, also those that are not shown.
  std::vector<std::string> totals;
};

// A name of a column in another tool.
struct Alias {
  std::string_view name;
  std::string_view column;
};

struct GroupName {
  std::string_view name;
  GroupBy group;
  std::string_view about;
};

// One of several tables of a view, with its own columns.
struct SubTable {
  std::string_view name;
  std::string_view about;
  std::string_view columns;  // shown on a terminal without -c
};

// A rule by which a view computes: Lockstep's own or another tool's.
struct Method {
  std::string_view name;
  std::string_view about;
};

struct View {
  std::string_view name;   // name of the command
  std::string_view about;  // one line
  std::string_view text;   // further text of --help
  std::span<const GroupName> groupings;
  std::string_view columns;               // shown on a terminal without -c; unused if the view has `tables`
  std::span<const SubTable> tables = {};  // empty: one table without a name
  std::span<const Method> methods = {};   // empty: one method
  std::span<const Alias> aliases;
  bool (*needs_frames)(const ViewOptions& options) =
      nullptr;                   // true: needs formats::HostDetail::kFrames; null: never
  bool groups_are_sums = false;  // without a grouping, a row is one event and not a sum
  bool needs_all_ranks = false;  // computes with all ranks, even if only some are shown
  MadeView (*make)(const ViewInput& input, const ViewOptions& options);

  std::string_view ColumnsOf(const ViewOptions& options) const;
};

std::span<const View> Views();

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_CATALOG_VIEWS_H_
