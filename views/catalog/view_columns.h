// For the files that describe views (*_view.cc): rows with their columns into a grid.
#ifndef LOCKSTEP_AGGREGATOR_TABLES_VIEW_COLUMNS_H_
#define LOCKSTEP_AGGREGATOR_TABLES_VIEW_COLUMNS_H_

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "views/catalog/views.h"
#include "views/tables/table_source.h"

namespace lockstep::tables {

template <typename Row>
Grid GridOf(TableTitle title, std::vector<Row> rows, std::vector<ColumnOf<Row>> columns) {
  const RowsTable<Row> table(title, std::move(rows), std::move(columns));
  Grid grid(table.table());
  // A grid refuses nothing.
  (void)table.Write(grid);
  return grid;
}

// Nothing is unknown, not empty.
inline std::optional<std::string_view> Known(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

// Null where all ranks are one row.
inline std::optional<int32_t> Known(RankId rank) {
  return rank == kNoRank ? std::nullopt : std::optional(rank.value());
}

inline std::optional<double> Ratio(Nanos part, Nanos whole) {
  return whole.ns() == 0 ? std::nullopt
                         : std::optional(static_cast<double>(part.ns()) / static_cast<double>(whole.ns()));
}

// What a view that needs operators says where there are none; empty where there are some.
std::vector<std::string> NotesOnFrames(const store::Capture& capture);

// What times are shown from: the first stamp, or the begin of the window, of the rank's entries.
HostTime BeginOf(const store::Capture& capture, RankId rank);

// The rows of Views(), each in its file.
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

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_VIEW_COLUMNS_H_
