// lockstep diff: compares two captures in a table, with one row per item that either of them ran.
#ifndef LOCKSTEP_VIEWS_CATALOG_DIFF_VIEW_H_
#define LOCKSTEP_VIEWS_CATALOG_DIFF_VIEW_H_

#include "views/catalog/views.h"
#include "views/device/trace_diff.h"

namespace lockstep::views {

// Columns shown on a terminal by default.
inline constexpr std::string_view kDiffColumns = "name,change,count_a,count_b,a_ns,b_ns,difference_ns,ratio";

MadeView MakeDiff(const views::DiffInput& before, const views::DiffInput& after, views::DiffKey key);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_CATALOG_DIFF_VIEW_H_
