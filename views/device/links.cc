#include "views/device/links.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "analysis/prepare/launches.h"
#include "views/host/host_tree.h"

namespace lockstep::views {
namespace {

using capture::kNone;

void AddLaunches(const capture::Capture& capture, const Process& process, std::vector<LaunchLink>& out) {
  HostTree tree;
  if (process.frames != nullptr)
    tree = BuildHostTree(capture, process, FrameKinds{capture::FrameKind::kOperator});
  for (const uint32_t entry : process.entries) {
    const capture::RankData& rank = capture.ranks[entry];
    const analysis::CallIndex calls(rank);
    for (const capture::DeviceActivity& a : rank.activities) {
      LaunchLink& link = out.emplace_back(LaunchLink{.rank = process.rank,
                                                     .activity = capture.Text(a.name),
                                                     .kind = a.kind,
                                                     .start = a.start,
                                                     .length = a.end - a.start,
                                                     .stream = a.stream,
                                                     .correlation = a.correlation});
      const uint32_t place = calls.Of(a.correlation);
      if (place == kNone) continue;
      const capture::ApiCall& call = rank.api_calls[place];
      link.call = capture.Text(call.name);
      link.call_start = call.start;
      link.thread = call.thread;
      const uint32_t node =
          process.frames == nullptr ? kNone : tree.At(*process.frames, call.thread, call.start);
      if (node == kNone) continue;
      const capture::HostFrame& frame = process.frames->frames[tree.nodes[node].frame];
      link.op = capture.Text(frame.name);
      link.op_start = frame.start;
    }
  }
}

void AddBackward(const capture::Capture& capture, const Process& process, std::vector<BackwardLink>& out) {
  const capture::HostFrames& frames = *process.frames;
  const HostTree tree = BuildHostTree(capture, process, FrameKinds{capture::FrameKind::kOperator});
  const auto frame_of = [&](uint32_t node) -> const capture::HostFrame& {
    return frames.frames[tree.nodes[node].frame];
  };
  const auto detail_of = [&](uint32_t node) -> const capture::FrameDetail* {
    const uint32_t detail = frame_of(node).detail;
    return detail == kNone ? nullptr : &frames.details[detail];
  };
  // The outermost operators with each sequence number, in the order of their starts.
  absl::flat_hash_map<int64_t, std::vector<uint32_t>> forward;
  std::vector<uint32_t> backward;
  for (uint32_t i = 0; i < tree.nodes.size(); ++i) {
    const capture::FrameDetail* detail = detail_of(i);
    if (detail == nullptr || detail->sequence < 0) continue;
    const uint32_t parent = tree.nodes[i].parent;
    const capture::FrameDetail* around = parent == kNone ? nullptr : detail_of(parent);
    const bool back = detail->forward_thread.value() != 0;
    if (around != nullptr && around->sequence == detail->sequence &&
        (around->forward_thread.value() != 0) == back)
      continue;
    if (back) {
      backward.push_back(i);
    } else {
      forward[detail->sequence].push_back(i);
    }
  }
  for (auto& [sequence, nodes] : forward) {
    std::stable_sort(nodes.begin(), nodes.end(),
                     [&](uint32_t a, uint32_t b) { return frame_of(a).start < frame_of(b).start; });
  }
  for (const uint32_t b : backward) {
    const int64_t sequence = detail_of(b)->sequence;
    const auto of = forward.find(sequence);
    if (of == forward.end()) continue;
    const auto later = std::upper_bound(of->second.begin(), of->second.end(), frame_of(b).start,
                                        [&](HostTime at, uint32_t f) { return at < frame_of(f).start; });
    if (later == of->second.begin()) continue;
    const uint32_t f = *(later - 1);
    out.push_back({.rank = process.rank,
                   .sequence = sequence,
                   .forward = capture.Text(frame_of(f).name),
                   .backward = capture.Text(frame_of(b).name),
                   .forward_start = frame_of(f).start,
                   .backward_start = frame_of(b).start,
                   .forward_host = tree.nodes[f].host,
                   .backward_host = tree.nodes[b].host,
                   .forward_device = tree.nodes[f].device,
                   .backward_device = tree.nodes[b].device});
  }
}

}  // namespace

std::vector<LaunchLink> LaunchLinksOf(const capture::Capture& capture) {
  std::vector<LaunchLink> out;
  for (const Process& process : ProcessesOf(capture)) AddLaunches(capture, process, out);
  std::stable_sort(out.begin(), out.end(), [](const LaunchLink& a, const LaunchLink& b) {
    return std::tie(a.rank, a.start) < std::tie(b.rank, b.start);
  });
  return out;
}

std::vector<BackwardLink> BackwardLinksOf(const capture::Capture& capture) {
  std::vector<BackwardLink> out;
  for (const Process& process : ProcessesOf(capture)) {
    if (process.frames != nullptr) AddBackward(capture, process, out);
  }
  std::stable_sort(out.begin(), out.end(), [](const BackwardLink& a, const BackwardLink& b) {
    return std::tie(a.rank, a.forward_start, a.backward_start) <
           std::tie(b.rank, b.forward_start, b.backward_start);
  });
  return out;
}

}  // namespace lockstep::views
