// The views that predecessors had, as tables: one row here for each of `lockstep ops`, `lockstep kernels`, …
// What a view computes is in aggregator/views; which columns it has is said here, once, for the terminal,
// CSV, JSON and the HTML report.
#ifndef LOCKSTEP_AGGREGATOR_TABLES_VIEWS_H_
#define LOCKSTEP_AGGREGATOR_TABLES_VIEWS_H_

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

namespace lockstep::tables {

// By what rows of a view can be told apart.
enum class GroupBy : uint8_t { kRank, kShape, kStack, kLaunch, kStep, kLayer, kOperator };

struct ViewOptions {
  std::vector<GroupBy> group_by;
  int stack_depth = 5;      // calls, with kStack
  std::string_view table;   // one of View::tables; empty: the first
  std::string_view method;  // one of View::methods; empty: the first
  bool Has(GroupBy what) const;
};

// What a view is made from. `analysis` is called by the views that need it; it outlives the grid.
struct ViewInput {
  const store::Capture& capture;
  std::function<const report::Analysis&()> analysis;
  std::vector<RankId> only = {};  // of a view that needs all ranks, whose rows are wanted; empty: all
};

struct MadeView {
  Grid grid;
  // What the reader must know: what the capture lacks, what was left out.
  std::vector<std::string> notes;
};

// Another name that users of other tools know a column by.
struct Alias {
  std::string_view name;
  std::string_view column;
};

struct GroupName {
  std::string_view name;
  GroupBy group;
  std::string_view about;
};

// A view of several tables: each has its columns.
struct SubTable {
  std::string_view name;
  std::string_view about;
  std::string_view columns;  // shown on a terminal where -c says nothing
};

// By whose rule a view computes.
struct Method {
  std::string_view name;
  std::string_view about;
};

struct View {
  std::string_view name;   // of the command
  std::string_view about;  // one line
  std::string_view text;   // what --help says below
  std::span<const GroupName> groupings;
  std::string_view columns;  // shown on a terminal where -c says nothing; with `tables` theirs are
  std::span<const SubTable> tables = {};  // empty: one, without a name
  std::span<const Method> methods = {};   // empty: one
  std::span<const Alias> aliases;
  bool (*needs_frames)(const ViewOptions& options) = nullptr;  // trace::HostDetail::kFrames; null: never
  bool groups_are_sums = false;  // a row is one event where no grouping is asked for
  bool needs_all_ranks = false;  // ranks that are not asked for are part of what is computed
  MadeView (*make)(const ViewInput& input, const ViewOptions& options);

  std::string_view ColumnsOf(const ViewOptions& options) const;
};

std::span<const View> Views();

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_VIEWS_H_
