#include "views/catalog/profile_view.h"

#include "absl/strings/str_cat.h"
#include "views/catalog/view_columns.h"

namespace lockstep::tables {

std::span<const Alias> ProfileAliases() {
  static constexpr Alias kAliases[] = {{"ncalls", "calls"},        {"tottime", "self_ns"},
                                       {"time", "self_ns"},        {"cumtime", "total_ns"},
                                       {"cumulative", "total_ns"}, {"name", "function"},
                                       {"filename", "file"},       {"pcalls", "primitive_calls"}};
  return kAliases;
}

MadeView MakeProfile(std::span<const store::PythonProfile> profiles, views::PythonRows rows) {
  using R = views::PythonFunctionRow;
  MadeView view{
      GridOf<R>({"profile", "What each Python function cost."}, views::PythonFunctionsOf(profiles, rows),
                {
                    Make<R>("rank", "", "null: all that have the function",
                            [](const R& r) { return Known(r.rank); }),
                    Make<R>("function", "", "its name", [](const R& r) { return r.name; }),
                    Make<R>("file", "", "~: of C", [](const R& r) { return r.file; }),
                    Make<R>("line", "", "where it begins", [](const R& r) { return r.line; }),
                    Make<R>("calls", "", "mean over the ranks", [](const R& r) { return r.calls; }),
                    Make<R>("primitive_calls", "", "those that were not within another of the same",
                            [](const R& r) { return r.primitive_calls; }),
                    Make<R>("self_ns", "ns", "without what it called, mean over the ranks",
                            [](const R& r) { return r.self; }),
                    Make<R>("self_min_ns", "ns", "on the rank where it is least",
                            [](const R& r) { return r.least_self; }),
                    Make<R>("self_max_ns", "ns", "on the rank where it is most",
                            [](const R& r) { return r.most_self; }),
                    Make<R>("slowest_rank", "", "that rank", [](const R& r) { return Known(r.most_rank); }),
                    Make<R>("total_ns", "ns", "with what it called, mean over the ranks",
                            [](const R& r) { return r.total; }),
                    Make<R>("ranks", "", "how many have it", [](const R& r) { return r.ranks; }),
                }),
      {}};
  for (const store::PythonProfile& profile : profiles) {
    if (profile.unreadable == 0) continue;
    view.notes.push_back(absl::StrCat("rank ", profile.rank.value(), ": ", profile.unreadable,
                                      " entries are no function's and left out"));
  }
  return view;
}

}  // namespace lockstep::tables
