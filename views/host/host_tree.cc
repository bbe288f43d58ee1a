#include "views/host/host_tree.h"

#include <algorithm>
#include <tuple>

#include "analysis/prepare/launches.h"

namespace lockstep::views {
namespace {

using capture::HostFrame;
using capture::HostFrames;
using capture::kNone;

// Time stamps in whole microseconds may place the end of a frame after that of the frame around it.
constexpr Nanos kRounding = Nanos::Micros(2);

void AddNodes(const HostFrames& frames, FrameKinds kinds, HostTree& tree) {
  std::vector<uint32_t> open;
  const auto frame_of = [&](uint32_t node) -> const HostFrame& {
    return frames.frames[tree.nodes[node].frame];
  };
  for (uint32_t i = 0; i < frames.frames.size(); ++i) {
    const HostFrame& frame = frames.frames[i];
    if (!kinds.Has(frame.kind)) continue;
    while (!open.empty() &&
           (frame_of(open.back()).thread != frame.thread || frame_of(open.back()).end <= frame.start))
      open.pop_back();
    while (!open.empty() && frame_of(open.back()).end + kRounding < frame.end) {
      ++tree.crossing;
      open.pop_back();
    }
    HostNode node{.frame = i, .parent = open.empty() ? kNone : open.back()};
    node.host = node.self_host = frame.end - frame.start;
    if (node.parent != kNone) {
      Nanos& outer = tree.nodes[node.parent].self_host;
      outer = std::max(Nanos(), outer - node.host);
    }
    open.push_back(static_cast<uint32_t>(tree.nodes.size()));
    tree.nodes.push_back(node);
  }
}

void AddLaunches(const capture::Capture& capture, const Process& process, HostTree& tree) {
  for (const uint32_t entry : process.entries) {
    const capture::RankData& rank = capture.ranks[entry];
    const analysis::CallIndex calls(rank);
    for (uint32_t i = 0; i < rank.activities.size(); ++i) {
      const capture::DeviceActivity& a = rank.activities[i];
      Launch& launch = tree.launches.emplace_back(Launch{.activity = {.entry = entry, .activity = i}});
      const uint32_t call = calls.Of(a.correlation);
      if (call == kNone) continue;
      launch.node = tree.At(*process.frames, rank.api_calls[call].thread, rank.api_calls[call].start);
      if (launch.node != kNone) tree.nodes[launch.node].self_device += a.end - a.start;
    }
  }
  for (HostNode& node : tree.nodes) node.device = node.self_device;
  // A node comes before the nodes inside it.
  for (size_t i = tree.nodes.size(); i-- > 0;) {
    const HostNode& node = tree.nodes[i];
    if (node.parent != kNone) tree.nodes[node.parent].device += node.device;
  }
}

}  // namespace

uint32_t HostTree::At(const HostFrames& frames, ThreadId thread, HostTime time) const {
  const auto later = std::upper_bound(nodes.begin(), nodes.end(), std::tuple(thread, time),
                                      [&](const auto& wanted, const HostNode& node) {
                                        const HostFrame& frame = frames.frames[node.frame];
                                        return wanted < std::tuple(frame.thread, frame.start);
                                      });
  if (later == nodes.begin()) return kNone;
  auto at = static_cast<uint32_t>(later - nodes.begin() - 1);
  if (frames.frames[nodes[at].frame].thread != thread) return kNone;
  while (at != kNone && frames.frames[nodes[at].frame].end < time) at = nodes[at].parent;
  return at;
}

HostTree BuildHostTree(const capture::Capture& capture, const Process& process, FrameKinds kinds) {
  HostTree tree;
  AddNodes(*process.frames, kinds, tree);
  AddLaunches(capture, process, tree);
  return tree;
}

}  // namespace lockstep::views
