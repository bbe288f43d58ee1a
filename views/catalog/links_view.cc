// lockstep links: the arrows of PyTorch's trace view, as tables.
#include <utility>

#include "aggregator/views/links.h"
#include "views/catalog/view_columns.h"

namespace lockstep::tables {
namespace {

constexpr std::string_view kBackward = "fwdbwd";

constexpr SubTable kTables[] = {
    {"ac2g", "what launched each kernel, copy and set",
     "rank,operator,call,call_ns,activity,start_ns,duration_ns,queued_ns,stream"},
    {kBackward, "which backward operator answers which forward one",
     "rank,sequence,forward,backward,forward_ns,backward_ns,forward_host_ns,backward_host_ns,forward_device_"
     "ns,backward_device_ns"},
};

struct LaunchRow {
  views::LaunchLink link;
  HostTime begin;
};

std::string_view KindName(store::ActivityKind kind) {
  return kind == store::ActivityKind::kKernel   ? "kernel"
         : kind == store::ActivityKind::kMemcpy ? "copy"
                                                : "set";
}

std::optional<Nanos> Since(const std::optional<HostTime>& time, HostTime begin) {
  return time ? std::optional(*time - begin) : std::nullopt;
}

Grid Launches(std::vector<LaunchRow> rows) {
  using R = LaunchRow;
  return GridOf<R>(
      {"links_ac2g", "What launched each kernel, copy and set."}, std::move(rows),
      {
          Make<R>("rank", "", "whose", [](const R& r) { return r.link.rank; }),
          Make<R>("operator", "", "innermost around the call; null: none",
                  [](const R& r) { return Known(r.link.op); }),
          Make<R>("operator_ns", "ns", "its start since the rank's first stamp",
                  [](const R& r) { return Since(r.link.op_start, r.begin); }),
          Make<R>("call", "", "that launched it; null: not recorded",
                  [](const R& r) { return Known(r.link.call); }),
          Make<R>("call_ns", "ns", "its start, alike",
                  [](const R& r) { return Since(r.link.call_start, r.begin); }),
          Make<R>("thread", "", "of the call", [](const R& r) { return r.link.thread; }),
          Make<R>("activity", "", "name of what ran on the device",
                  [](const R& r) { return Known(r.link.activity); }),
          Make<R>("kind", "", "kernel, copy or set", [](const R& r) { return KindName(r.link.kind); }),
          Make<R>("start_ns", "ns", "on the device, alike",
                  [](const R& r) { return r.link.start - r.begin; }),
          Make<R>("duration_ns", "ns", "on the device", [](const R& r) { return r.link.length; }),
          Make<R>("queued_ns", "ns", "from the start of the call to that on the device",
                  [](const R& r) {
                    return r.link.call_start ? std::optional(r.link.start - *r.link.call_start)
                                             : std::nullopt;
                  }),
          Make<R>("stream", "", "of the device", [](const R& r) { return r.link.stream; }),
          Make<R>("correlation", "", "CUPTI's number for both",
                  [](const R& r) { return r.link.correlation; }),
      });
}

struct BackwardRow {
  views::BackwardLink link;
  HostTime begin;
};

Grid Backward(std::vector<BackwardRow> rows) {
  using R = BackwardRow;
  return GridOf<R>({"links_fwdbwd", "Which backward operator answers which forward one."}, std::move(rows),
                   {
                       Make<R>("rank", "", "whose", [](const R& r) { return r.link.rank; }),
                       Make<R>("sequence", "", "PyTorch's number for the pair",
                               [](const R& r) { return r.link.sequence; }),
                       Make<R>("forward", "", "operator", [](const R& r) { return r.link.forward; }),
                       Make<R>("backward", "", "operator", [](const R& r) { return r.link.backward; }),
                       Make<R>("forward_ns", "ns", "start since the rank's first stamp",
                               [](const R& r) { return r.link.forward_start - r.begin; }),
                       Make<R>("backward_ns", "ns", "start, alike",
                               [](const R& r) { return r.link.backward_start - r.begin; }),
                       Make<R>("forward_host_ns", "ns", "length on the host",
                               [](const R& r) { return r.link.forward_host; }),
                       Make<R>("backward_host_ns", "ns", "length on the host",
                               [](const R& r) { return r.link.backward_host; }),
                       Make<R>("forward_device_ns", "ns", "of what was launched in it",
                               [](const R& r) { return r.link.forward_device; }),
                       Make<R>("backward_device_ns", "ns", "of what was launched in it",
                               [](const R& r) { return r.link.backward_device; }),
                   });
}

template <typename Row, typename Link>
std::vector<Row> WithBegins(const store::Capture& capture, const std::vector<Link>& links) {
  std::vector<Row> rows;
  RankId rank = kNoRank;
  HostTime begin;
  for (const Link& link : links) {
    if (link.rank != rank || rows.empty()) begin = BeginOf(capture, link.rank);
    rank = link.rank;
    rows.push_back({link, begin});
  }
  return rows;
}

MadeView MakeLinks(const ViewInput& input, const ViewOptions& options) {
  std::vector<std::string> notes = NotesOnFrames(input.capture);
  if (options.table != kBackward) {
    return {Launches(WithBegins<LaunchRow>(input.capture, views::LaunchLinksOf(input.capture))),
            std::move(notes)};
  }
  std::vector<BackwardRow> rows =
      WithBegins<BackwardRow>(input.capture, views::BackwardLinksOf(input.capture));
  if (rows.empty() && notes.empty())
    notes.emplace_back(
        "no operator carries a sequence number of the backward pass: nothing was trained in the window");
  return {Backward(std::move(rows)), std::move(notes)};
}

}  // namespace

View LinksView() {
  return {
      .name = "links",
      .about = "which operator and call launched what, and which backward operator answers which forward one",
      .text = "The arrows of PyTorch's trace view: \"ac2g\" and \"fwdbwd\".\n",
      .groupings = {},
      .tables = kTables,
      .aliases = {},
      .needs_frames = [](const ViewOptions&) { return true; },
      .make = &MakeLinks};
}

}  // namespace lockstep::tables
