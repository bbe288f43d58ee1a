// lockstep links: shows the arrows of PyTorch's trace view as tables.
#include <utility>

#include "views/catalog/view_columns.h"
#include "views/device/links.h"

namespace lockstep::views {
namespace {

constexpr std::string_view kBackward = "fwdbwd";

constexpr SubTable kLinksTables[] = {
    {"ac2g", "call and operator that launched each kernel, copy and set",
     "rank,operator,call,call_ns,activity,start_ns,duration_ns,queued_ns,stream"},
    {kBackward, "pairs of forward and backward operators",
     "rank,sequence,forward,backward,forward_ns,backward_ns,forward_host_ns,backward_host_ns,forward_device_"
     "ns,backward_device_ns"},
};

struct LaunchRow {
  views::LaunchLink link;
  HostTime begin;
};

std::string_view KindName(capture::ActivityKind kind) {
  return kind == capture::ActivityKind::kKernel   ? "kernel"
         : kind == capture::ActivityKind::kMemcpy ? "copy"
                                                  : "set";
}

Grid Launches(std::vector<LaunchRow> rows) {
  using R = LaunchRow;
  return GridOf<R>(
      {"links_ac2g", "Call and operator that launched each kernel, copy and set."}, std::move(rows),
      {
          Make<R>("rank", "", "rank of the row", [](const R& r) { return r.link.rank; }),
          Make<R>("operator", "", "innermost operator around the call; null: none",
                  [](const R& r) { return Known(r.link.op); }),
          Make<R>("operator_ns", "ns", "start of the operator since the rank's first time stamp",
                  [](const R& r) { return Since(r.link.op_start, r.begin); }),
          Make<R>("call", "", "call that launched the activity; null: not recorded",
                  [](const R& r) { return Known(r.link.call); }),
          Make<R>("call_ns", "ns", "start of the call since the rank's first time stamp",
                  [](const R& r) { return Since(r.link.call_start, r.begin); }),
          Make<R>("thread", "", "thread of the call", [](const R& r) { return r.link.thread; }),
          Make<R>("activity", "", "name of the device activity",
                  [](const R& r) { return Known(r.link.activity); }),
          Make<R>("kind", "", "kernel, copy or set", [](const R& r) { return KindName(r.link.kind); }),
          Make<R>("start_ns", "ns", "start on the device since the rank's first time stamp",
                  [](const R& r) { return r.link.start - r.begin; }),
          Make<R>("duration_ns", "ns", "duration on the device", [](const R& r) { return r.link.length; }),
          Make<R>("queued_ns", "ns", "from the start of the call to the start on the device",
                  [](const R& r) {
                    return r.link.call_start ? std::optional(r.link.start - *r.link.call_start)
                                             : std::nullopt;
                  }),
          Make<R>("stream", "", "stream of the device", [](const R& r) { return r.link.stream; }),
          Make<R>("correlation", "", "CUPTI's number for call and activity",
                  [](const R& r) { return r.link.correlation; }),
      });
}

struct BackwardRow {
  views::BackwardLink link;
  HostTime begin;
};

Grid Backward(std::vector<BackwardRow> rows) {
  using R = BackwardRow;
  return GridOf<R>(
      {"links_fwdbwd", "Pairs of forward and backward operators."}, std::move(rows),
      {
          Make<R>("rank", "", "rank of the row", [](const R& r) { return r.link.rank; }),
          Make<R>("sequence", "", "PyTorch's number for the pair",
                  [](const R& r) { return r.link.sequence; }),
          Make<R>("forward", "", "forward operator", [](const R& r) { return r.link.forward; }),
          Make<R>("backward", "", "backward operator", [](const R& r) { return r.link.backward; }),
          Make<R>("forward_ns", "ns", "start of the forward operator since the rank's first time stamp",
                  [](const R& r) { return r.link.forward_start - r.begin; }),
          Make<R>("backward_ns", "ns", "start of the backward operator since the rank's first time stamp",
                  [](const R& r) { return r.link.backward_start - r.begin; }),
          Make<R>("forward_host_ns", "ns", "duration of the forward operator on the host",
                  [](const R& r) { return r.link.forward_host; }),
          Make<R>("backward_host_ns", "ns", "duration of the backward operator on the host",
                  [](const R& r) { return r.link.backward_host; }),
          Make<R>("forward_device_ns", "ns", "device time of work launched in the forward operator",
                  [](const R& r) { return r.link.forward_device; }),
          Make<R>("backward_device_ns", "ns", "device time of work launched in the backward operator",
                  [](const R& r) { return r.link.backward_device; }),
      });
}

template <typename Row, typename Link>
std::vector<Row> WithBegins(const capture::Capture& capture, const std::vector<Link>& links) {
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
        "no operator of the backward pass has a sequence number: the window has no training step");
  return {Backward(std::move(rows)), std::move(notes)};
}

}  // namespace

View LinksView() {
  return {
      .name = "links",
      .about = "operator and call that launched each activity, and pairs of forward and backward operators",
      .text = "The arrows of PyTorch's trace view: \"ac2g\" and \"fwdbwd\".\n",
      .groupings = {},
      .tables = kLinksTables,
      .aliases = {},
      .needs_frames = [](const ViewOptions&) { return true; },
      .make = &MakeLinks};
}

}  // namespace lockstep::views
