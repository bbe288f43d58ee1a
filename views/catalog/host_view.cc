// lockstep host: what synchronising calls of the host really waited for.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "views/catalog/view_columns.h"
#include "views/device/host_waits.h"

namespace lockstep::tables {
namespace {

using R = views::HostWaitRow;

// "gemm 62% (aten::mm); …", the three that took the most of the call.
BorrowedOrMade AwaitedText(const R& r) {
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

std::vector<ColumnOf<R>> Columns() {
  return {
      Make<R>("rank", "", "number", [](const R& r) { return r.rank; }),
      Make<R>("tid", "", "thread that stood still", [](const R& r) { return r.thread; }),
      Make<R>("operator", "", "outermost operator around the call",
              [](const R& r) { return Known(r.called_by); }),
      Make<R>("range", "", "innermost annotation around the call", [](const R& r) { return Known(r.range); }),
      Make<R>("call", "", "that synchronised", [](const R& r) { return r.call; }),
      Make<R>("calls", "", "how often", [](const R& r) { return r.calls; }),
      Make<R>("blocked_ns", "ns", "how long in sum; the next ones add up to it",
              [](const R& r) { return r.blocked; }),
      Make<R>("compute_ns", "ns", "for kernels that compute", [](const R& r) { return r.compute; }),
      Make<R>("copy_ns", "ns", "for copies and sets", [](const R& r) { return r.copy; }),
      Make<R>("transfer_ns", "ns", "for communication, less what its kernels waited themselves",
              [](const R& r) { return r.transfer; }),
      Make<R>("other_ranks_ns", "ns",
              "for ranks that came late to communication; null: not known, and part of transfer_ns",
              [](const R& r) { return r.other_ranks; }),
      Make<R>("queued_ns", "ns", "for work that did not run yet, while the device ran other work",
              [](const R& r) { return r.queued; }),
      Make<R>("latency_ns", "ns", "for work that did not run yet, while the device ran nothing",
              [](const R& r) { return r.latency; }),
      Make<R>("after_ns", "ns", "when all of it had ended", [](const R& r) { return r.after; }),
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
  MadeView view{GridOf({"host", "What the host waited for."}, std::move(waits.rows), Columns()),
                NotesOnFrames(input.capture)};
  if (waits.unnamed != 0) {
    view.notes.push_back(absl::StrCat(
        waits.unnamed,
        " calls do not tell their stream or event; they were taken to wait for all that the device had"));
  }
  return view;
}

}  // namespace

View HostView() {
  return {.name = "host",
          .about = "what the host's synchronising calls really waited for",
          .text =
              "A profiler of the host blames the call that synchronises. Each call's time is given here to "
              "the kernels and copies that it waited\n"
              "for, to ranks that came late to communication, and to work that did not run yet. --ranks "
              "selects rows; waits are found with all.\n",
          .columns =
              "rank,operator,range,call,calls,blocked_ns,compute_ns,copy_ns,transfer_ns,other_ranks_ns,"
              "queued_ns,latency_ns,after_ns,waited_for",
          .needs_frames = [](const ViewOptions&) { return true; },
          .needs_all_ranks = true,
          .make = &MakeHost};
}

}  // namespace lockstep::tables
