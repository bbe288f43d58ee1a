#include "views/catalog/profile_view.h"

#include "absl/strings/str_cat.h"
#include "views/catalog/view_columns.h"

namespace lockstep::views {

std::span<const Alias> ProfileAliases() {
  static constexpr Alias kAliases[] = {{"ncalls", "calls"},        {"tottime", "self_ns"},
                                       {"time", "self_ns"},        {"cumtime", "total_ns"},
                                       {"cumulative", "total_ns"}, {"name", "function"},
                                       {"filename", "file"},       {"pcalls", "primitive_calls"}};
  return kAliases;
}

MadeView MakeProfile(std::span<const capture::PythonProfile> profiles, views::PythonRows rows) {
  using R = views::PythonFunctionRow;
  MadeView view{
      GridOf<R>(
          {"profile", "Cost of each Python function."}, views::PythonFunctionsOf(profiles, rows),
          {
              Make<R>("rank", "", "rank of the row; null: all ranks with the function",
                      [](const R& r) { return Known(r.rank); }),
              Make<R>("function", "", "name of the function", [](const R& r) { return r.name; }),
              Make<R>("file", "", "file of the function; ~: a C function", [](const R& r) { return r.file; }),
              Make<R>("line", "", "first line of the function", [](const R& r) { return r.line; }),
              Make<R>("calls", "", "number of calls, mean over the ranks",
                      [](const R& r) { return r.calls; }),
              Make<R>("primitive_calls", "", "number of calls that are not recursive",
                      [](const R& r) { return r.primitive_calls; }),
              Make<R>("self_ns", "ns", "time without called functions, mean over the ranks",
                      [](const R& r) { return r.self; }),
              Make<R>("self_min_ns", "ns", "smallest self time of a rank",
                      [](const R& r) { return r.least_self; }),
              Make<R>("self_max_ns", "ns", "largest self time of a rank",
                      [](const R& r) { return r.most_self; }),
              Make<R>("slowest_rank", "", "rank with the largest self time",
                      [](const R& r) { return Known(r.most_rank); }),
              Make<R>("total_ns", "ns", "time including called functions, mean over the ranks",
                      [](const R& r) { return r.total; }),
              Make<R>("ranks", "", "number of ranks with the function", [](const R& r) { return r.ranks; }),
          }),
      {}};
  for (const capture::PythonProfile& profile : profiles) {
    if (profile.unreadable == 0) continue;
    view.notes.push_back(absl::StrCat("rank ", profile.rank.value(), ": ", profile.unreadable,
                                      " entries are not functions and were left out"));
  }
  return view;
}

}  // namespace lockstep::views
