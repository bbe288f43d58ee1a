// lockstep host: shows the work that synchronising calls of the host waited for.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "views/catalog/view_columns.h"
#include "views/device/host_waits.h"

namespace lockstep::views {
namespace {

// Returns the three kernels or copies that took most of the call: "gemm 62% (aten::mm); …".
OwnedOrBorrowedText AwaitedText(const HostWaitRow& r) {
  constexpr size_t kMost = 3;
  constexpr size_t kName = 48;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, r.awaited.size()); ++i) {
    const views::Awaited& a = r.awaited[i];
    absl::StrAppend(&text, text.empty() ? "" : "; ", std::string(a.name.substr(0, kName)),
                    a.name.size() > kName ? "…" : "",
                    absl::StrFormat(" %.0f%%", 100 * Ratio(a.time, r.blocked).value_or(0)));
    if (!a.launched_by.empty()) absl::StrAppend(&text, " (", std::string(a.launched_by), ")");
  }
  if (text.empty()) return {};
  return {.made = std::move(text)};
}

std::vector<ColumnOf<HostWaitRow>> HostColumns() {
  using R = HostWaitRow;
  return {
      Make<R>("rank", "", "rank of the row", [](const R& r) { return r.rank; }),
      Make<R>("tid", "", "id of the blocked thread", [](const R& r) { return r.thread; }),
      Make<R>("operator", "", "outermost operator around the call",
              [](const R& r) { return Known(r.called_by); }),
      Make<R>("range", "", "innermost annotation around the call", [](const R& r) { return Known(r.range); }),
      Make<R>("call", "", "synchronising call", [](const R& r) { return r.call; }),
      Make<R>("calls", "", "number of calls", [](const R& r) { return r.calls; }),
      Make<R>("blocked_ns", "ns", "sum of the calls' durations; the next columns add up to it",
              [](const R& r) { return r.blocked; }),
      Make<R>("compute_ns", "ns", "waiting for compute kernels", [](const R& r) { return r.compute; }),
      Make<R>("copy_ns", "ns", "waiting for copies and sets", [](const R& r) { return r.copy; }),
      Make<R>("transfer_ns", "ns",
              "waiting for communication, or for work queued behind it, without the waiting of its kernels",
              [](const R& r) { return r.transfer; }),
      Make<R>("other_ranks_ns", "ns",
              "waiting for ranks that arrived late at communication, also with work queued behind it; null: "
              "unknown, and part of transfer_ns",
              [](const R& r) { return r.other_ranks; }),
      Make<R>("queued_ns", "ns",
              "waiting for queued work while the device ran compute or copies of other streams",
              [](const R& r) { return r.queued; }),
      Make<R>("latency_ns", "ns", "waiting for queued work while the device ran nothing",
              [](const R& r) { return r.latency; }),
      Make<R>("after_ns", "ns", "time in the call after all awaited work had ended",
              [](const R& r) { return r.after; }),
      Make<R>("waited_for", "",
              "kernels and copies with their share of blocked_ns, and the operator that launched them",
              [](const R& r) { return AwaitedText(r); }),
  };
}

MadeView MakeHost(const ViewInput& input, const ViewOptions&) {
  const report::Analysis& analysis = input.analysis();
  const analysis::CollectiveTimes times =
      analysis::TimeCollectives(input.capture, analysis.matches, analysis.clock);
  views::HostWaits waits = views::HostWaitsOf(input.capture, times, input.only);
  MadeView view{GridOf({"host", "Waiting of the host."}, std::move(waits.rows), HostColumns()),
                NotesOnFrames(input.capture)};
  if (waits.unnamed != 0) {
    view.notes.push_back(absl::StrCat(
        waits.unnamed, " calls have no stream or event; they count as waiting for all work of the device"));
  }
  return view;
}

}  // namespace

View HostView() {
  return {.name = "host",
          .about = "work that the host's synchronising calls waited for",
          .text =
              "A profiler of the host blames the call that synchronises. Each call's time is given here to "
              "the kernels and copies that it waited\n"
              "for, to ranks that came late to communication, and to work that did not run yet. --ranks "
              "selects rows; waits are found with all.\n",
          .columns =
              "rank,waited_for,blocked_ns,other_ranks_ns,transfer_ns,compute_ns,operator,call,calls,range,"
              "copy_ns,queued_ns,latency_ns,after_ns",
          .needs_frames = [](const ViewOptions&) { return true; },
          .needs_all_ranks = true,
          .make = &MakeHost};
}

}  // namespace lockstep::views
