// lockstep diff as a table: two captures, one row for each thing that either of them ran.
#ifndef LOCKSTEP_AGGREGATOR_TABLES_DIFF_VIEW_H_
#define LOCKSTEP_AGGREGATOR_TABLES_DIFF_VIEW_H_

#include "views/catalog/views.h"
#include "views/device/trace_diff.h"

namespace lockstep::tables {

// The columns shown on a terminal.
inline constexpr std::string_view kDiffColumns = "name,change,count_a,count_b,a_ns,b_ns,difference_ns,ratio";

MadeView MakeDiff(const views::DiffInput& before, const views::DiffInput& after, views::DiffKey key);

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_DIFF_VIEW_H_
