#include "views/catalog/diff_view.h"

#include "absl/strings/str_cat.h"
#include "views/catalog/view_columns.h"

namespace lockstep::views {
namespace {

std::string_view ChangeName(views::Change change) {
  switch (change) {
    case views::Change::kAdded:
      return "added";
    case views::Change::kDeleted:
      return "deleted";
    case views::Change::kIncreased:
      return "increased";
    case views::Change::kDecreased:
      return "decreased";
    case views::Change::kUnchanged:
      return "unchanged";
  }
  return "";
}

std::vector<ColumnOf<DiffRow>> DiffColumns() {
  using R = DiffRow;
  return {
      Make<R>("name", "", "name of the kernel, operator, collective or step",
              [](const R& r) { return std::string_view(r.key); }),
      Make<R>("change", "", "change of the count: added, deleted, increased, decreased, unchanged",
              [](const R& r) { return ChangeName(r.change); }),
      Make<R>("count_a", "", "number of runs in A", [](const R& r) { return r.before.count; }),
      Make<R>("count_b", "", "number of runs in B", [](const R& r) { return r.after.count; }),
      Make<R>("total_a_ns", "ns", "sum of durations in A", [](const R& r) { return r.before.total; }),
      Make<R>("total_b_ns", "ns", "sum of durations in B", [](const R& r) { return r.after.total; }),
      Make<R>("a_ns", "ns", "total_a_ns per step and rank; per rank if steps are unknown",
              [](const R& r) { return r.before.mean; }),
      Make<R>("b_ns", "ns", "total_b_ns per step and rank; per rank if steps are unknown",
              [](const R& r) { return r.after.mean; }),
      Make<R>("difference_ns", "ns", "b_ns minus a_ns", [](const R& r) { return r.difference; }),
      Make<R>("ratio", "", "b_ns over a_ns; null: added",
              [](const R& r) { return Ratio(r.after.mean, r.before.mean); }),
  };
}

std::string Many(uint64_t count, std::string_view what) {
  return absl::StrCat(count, " ", std::string(what), count == 1 ? "" : "s");
}

}  // namespace

MadeView MakeDiff(const views::DiffInput& before, const views::DiffInput& after, views::DiffKey key) {
  views::TraceDiff diff = views::DiffOf(before, after, key);
  const std::string ranks =
      absl::StrCat(Many(diff.ranks_before, "rank"), " in A, ", Many(diff.ranks_after, "rank"), " in B");
  MadeView view{GridOf({"diff", "Differences of two captures."}, std::move(diff.rows), DiffColumns()), {}};
  if (diff.per_step) {
    view.notes.push_back(
        absl::StrCat("whole steps only: ", Many(diff.steps_before, "step"), " of A, ",
                     Many(diff.steps_after, "step"), " of B; ", ranks,
                     key == views::DiffKey::kStep ? "; figures per rank" : "; figures per step and rank"));
  } else {
    view.notes.push_back(
        absl::StrCat("a capture has no steps: figures are of whole captures, per rank; ", ranks));
  }
  if (key == views::DiffKey::kOperator) {
    for (const capture::Capture* capture : {&before.capture, &after.capture}) {
      for (const std::string& note : NotesOnFrames(*capture))
        view.notes.push_back(absl::StrCat(capture == &before.capture ? "A: " : "B: ", note));
    }
  }
  return view;
}

}  // namespace lockstep::views
