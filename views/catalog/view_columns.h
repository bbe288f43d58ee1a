// Helpers of the files that describe views (*_view.cc): they put rows with their columns into a grid.
#ifndef LOCKSTEP_VIEWS_CATALOG_VIEW_COLUMNS_H_
#define LOCKSTEP_VIEWS_CATALOG_VIEW_COLUMNS_H_

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "views/catalog/views.h"
#include "views/tables/table_source.h"

namespace lockstep::views {

template <typename Row>
Grid GridOf(TableTitle title, std::vector<Row> rows, std::vector<ColumnOf<Row>> columns) {
  const RowsTable<Row> table(title, std::move(rows), std::move(columns));
  Grid grid(table.table());
  // A grid accepts every row, so Write() cannot fail.
  (void)table.Write(grid);
  return grid;
}

// An empty text is unknown, not empty.
inline std::optional<std::string_view> Known(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

// Null: one row stands for all ranks.
inline std::optional<int32_t> Known(RankId rank) {
  return rank == kNoRank ? std::nullopt : std::optional(rank.value());
}

inline std::optional<Nanos> Since(const std::optional<HostTime>& time, HostTime begin) {
  return time ? std::optional(*time - begin) : std::nullopt;
}

// Returns three extents of a row's launch as "x,y,z"; null: the source has none. `launch` is an optional or a
// pointer.
template <typename Row, typename T>
OwnedOrBorrowedText ThreeOf(const Row& row, const T (capture::KernelDetail::*member)[3]) {
  if (!row.launch) return {};
  const auto& of = (*row.launch).*member;
  return {.made = absl::StrCat(of[0], ",", of[1], ",", of[2])};
}

inline std::optional<double> Ratio(Nanos part, Nanos whole) {
  return whole.ns() == 0 ? std::nullopt
                         : std::optional(static_cast<double>(part.ns()) / static_cast<double>(whole.ns()));
}

// Returns a note for views that need operators, if ranks lack them. Empty: all ranks have operators.
std::vector<std::string> NotesOnFrames(const capture::Capture& capture);

// Returns the origin of the times that a view shows for a rank: the earliest start of its entries' windows.
HostTime BeginOf(const capture::Capture& capture, RankId rank);

// The rows of Views(). Each function is in the file with its name.
View OpsView();          // ops_view.cc
View KernelsView();      // kernels_view.cc
View DistributedView();  // distributed_view.cc
View LinksView();        // links_view.cc
View MemoryView();       // memory_view.cc
View ModulesView();      // modules_view.cc
View OverviewView();     // overview_view.cc
View HostView();         // host_view.cc
View LayersView();       // layers_view.cc
View DeviceView();       // device_view.cc

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_CATALOG_VIEW_COLUMNS_H_
