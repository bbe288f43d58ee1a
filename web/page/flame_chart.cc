#include "web/page/flame_chart.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "views/host/process.h"

namespace lockstep::web {
namespace {

using capture::kNone;
using views::FlameKind;
using views::FlameNode;
using views::FlameTree;

// A frame is shown if it has this part of the time of the mean or of a shown rank. It is then a pixel wide on
// a large screen.
constexpr double kLeastPart = 1.0 / 2000;

constexpr FlameKind kKinds[] = {FlameKind::kDevice, FlameKind::kHost, FlameKind::kPython};

// The tree of all ranks. Column 0 is the sum; the others are the shown ranks.
struct Merged {
  struct Node {
    std::string_view name;
    uint32_t parent = kNone;
    std::vector<double> times;
  };
  std::vector<Node> nodes;
  std::vector<double> whole;  // of the outermost frames, by column
  uint64_t counted_ranks = 0;
  bool nested = false;
};

class Merging {
 public:
  Merging(const capture::Capture& capture, FlameKind kind, std::span<const RankId> ranks)
      : capture_(capture), kind_(kind), ranks_(ranks) {
    merged_.whole.resize(ranks.size() + 1);
  }

  // The names point into the capture.
  Merged Merge() {
    std::vector<RankId> all;
    for (const views::Process& process : views::ProcessesOf(capture_)) all.push_back(process.rank);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (const RankId rank : all) {
      const FlameTree tree = views::BuildFlame(capture_, {.kind = kind_, .rank = rank});
      if (tree.nodes.empty()) continue;
      ++merged_.counted_ranks;
      const auto shown = std::find(ranks_.begin(), ranks_.end(), rank);
      Add(tree, shown == ranks_.end() ? 0 : static_cast<size_t>(shown - ranks_.begin()) + 1);
    }
    return std::move(merged_);
  }

 private:
  // Adds to the sum, and to `column` unless it is 0.
  void Add(const FlameTree& tree, size_t column) {
    std::vector<uint32_t> places;
    for (const FlameNode& node : tree.nodes) {
      const uint32_t parent = node.parent == kNone ? kNone : places[node.parent];
      const auto [it, added] =
          known_.try_emplace({parent, node.name}, static_cast<uint32_t>(merged_.nodes.size()));
      if (added) {
        merged_.nodes.push_back({node.name, parent, std::vector<double>(ranks_.size() + 1)});
        merged_.nested |= parent != kNone;
      }
      places.push_back(it->second);
      const auto time = static_cast<double>(node.total.ns());
      AddTime(it->second, 0, time);
      if (column != 0) AddTime(it->second, column, time);
    }
  }
  void AddTime(uint32_t place, size_t column, double time) {
    merged_.nodes[place].times[column] += time;
    if (merged_.nodes[place].parent == kNone) merged_.whole[column] += time;
  }

  const capture::Capture& capture_;
  const FlameKind kind_;
  const std::span<const RankId> ranks_;
  Merged merged_;
  absl::flat_hash_map<std::pair<uint32_t, std::string_view>, uint32_t> known_;
};

bool IsSeen(const Merged& merged, const Merged::Node& node) {
  for (size_t column = 0; column < merged.whole.size(); ++column) {
    if (node.times[column] > 0 && node.times[column] >= kLeastPart * merged.whole[column]) return true;
  }
  return false;
}

FlameChart ChartOf(const Merged& merged, FlameKind kind, std::span<const RankId> ranks) {
  FlameChart chart{.kind = kind, .counted_ranks = merged.counted_ranks};
  for (const RankId rank : ranks) chart.ranks.push_back({.rank = rank});
  absl::flat_hash_map<std::string_view, size_t> names;
  std::vector<uint32_t> places(merged.nodes.size(), kNone);
  uint32_t count = 0;
  for (size_t i = 0; i < merged.nodes.size(); ++i) {
    const Merged::Node& node = merged.nodes[i];
    const bool inside = node.parent != kNone;
    // A frame of a frame that is too short is too short as well.
    if ((inside && places[node.parent] == kNone) || !IsSeen(merged, node)) {
      ++chart.left_out;
      continue;
    }
    places[i] = count++;
    const auto [name, added] = names.try_emplace(node.name, chart.names.size());
    if (added) chart.names.emplace_back(node.name);
    chart.name_at.push_back(static_cast<float>(name->second));
    chart.parent.push_back(inside ? static_cast<float>(places[node.parent]) : -1.0f);
    chart.mean_ns.push_back(static_cast<float>(node.times[0] / static_cast<double>(merged.counted_ranks)));
    for (size_t r = 0; r < ranks.size(); ++r)
      chart.ranks[r].time_ns.push_back(static_cast<float>(node.times[r + 1]));
  }
  return chart;
}

bool HasPython(const capture::Capture& capture) {
  for (const views::Process& process : views::ProcessesOf(capture)) {
    if (process.frames == nullptr) continue;
    bool modules = false;
    for (const capture::HostFrame& frame : process.frames->frames) {
      if (frame.kind == capture::FrameKind::kPython) return true;
      modules |= frame.kind == capture::FrameKind::kModule;
    }
    // With modules, the stacks of operators have no more frames than those of the host.
    if (modules) continue;
    for (const capture::FrameDetail& detail : process.frames->details) {
      if (detail.stack != kNoName) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<FlameChart> MakeFlameCharts(const capture::Capture& capture, std::span<const RankId> ranks) {
  std::vector<FlameChart> charts;
  for (const FlameKind kind : kKinds) {
    if (kind == FlameKind::kPython && !HasPython(capture)) continue;
    const Merged merged = Merging(capture, kind, ranks).Merge();
    if (merged.nested) charts.push_back(ChartOf(merged, kind, ranks));
  }
  return charts;
}

}  // namespace lockstep::web
