#include "views/host/flame.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/log/clean_text.h"
#include "base/step_name.h"
#include "views/host/host_tree.h"
#include "views/host/in_step.h"
#include "views/host/process.h"

namespace lockstep::views {
namespace {

using capture::FrameKind;
using capture::kNone;

constexpr FrameKinds kCalls{FrameKind::kOperator, FrameKind::kAnnotation, FrameKind::kModule};
constexpr FrameKinds kCallsAndPython{FrameKind::kOperator, FrameKind::kAnnotation, FrameKind::kModule,
                                     FrameKind::kPython};

// Each step has a name of its own, but all of them are one frame.
std::string_view FrameName(std::string_view name) {
  uint64_t number = 0;
  if (!NamesStep(name, &number)) return name;
  while (!name.empty() && ((name.back() >= '0' && name.back() <= '9') || name.back() == '#' ||
                           name.back() == '_' || name.back() == ':' || name.back() == ' '))
    name.remove_suffix(1);
  return name;
}

class Builder {
 public:
  Builder(const capture::Capture& capture, const FlameOptions& options)
      : capture_(capture), options_(options) {}

  FlameTree Build() {
    for (const Process& process : ProcessesOf(capture_)) {
      if (options_.rank == kNoRank || options_.rank == process.rank) AddProcess(process);
    }
    AddTotals();
    return std::move(tree_);
  }

 private:
  // Returns the frame of that name inside `parent`.
  uint32_t Find(uint32_t parent, std::string_view name) {
    const auto [it, added] = places_.try_emplace({parent, name}, static_cast<uint32_t>(tree_.nodes.size()));
    if (added) tree_.nodes.push_back({.name = name, .parent = parent});
    return it->second;
  }

  void Add(uint32_t place, Nanos time) {
    ++tree_.nodes[place].count;
    tree_.nodes[place].self += time;
  }

  void AddProcess(const Process& process) {
    uint32_t root = kNone;
    if (options_.roots == FlameRoots::kRanks) {
      root = Find(kNone, tree_.names.emplace_back(absl::StrCat("rank ", process.rank.value())));
    }
    if (process.frames == nullptr) {
      if (options_.kind == FlameKind::kDevice) AddActivities(process, root);
      return;
    }
    const capture::HostFrames& frames = *process.frames;
    const bool python = std::any_of(frames.frames.begin(), frames.frames.end(), [](const auto& frame) {
      return frame.kind == FrameKind::kPython || frame.kind == FrameKind::kModule;
    });
    if (options_.kind == FlameKind::kPython && !python) return AddRecordedStacks(process, root);
    const HostTree tree =
        BuildHostTree(capture_, process, options_.kind == FlameKind::kPython ? kCallsAndPython : kCalls);
    std::vector<uint32_t> places;
    for (const HostNode& node : tree.nodes) {
      places.push_back(Find(node.parent == kNone ? root : places[node.parent],
                            FrameName(capture_.Text(frames.frames[node.frame].name))));
      if (options_.kind != FlameKind::kDevice && InStep(process, frames.frames[node.frame].start))
        Add(places.back(), node.self_host);
    }
    if (options_.kind != FlameKind::kDevice) return;
    for (const Launch& launch : tree.launches) {
      AddActivity(launch.node == kNone ? root : places[launch.node], launch.activity.entry,
                  launch.activity.activity);
    }
  }

  void AddActivities(const Process& process, uint32_t root) {
    for (const uint32_t entry : process.entries) {
      for (uint32_t i = 0; i < capture_.ranks[entry].activities.size(); ++i) AddActivity(root, entry, i);
    }
  }

  void AddActivity(uint32_t parent, uint32_t entry, uint32_t activity) {
    if (options_.steps != nullptr && options_.steps->ranks[entry].of_activity[activity] < 0) return;
    const capture::DeviceActivity& a = capture_.ranks[entry].activities[activity];
    const std::string_view name = capture_.Text(a.name);
    Add(Find(parent, name.empty() ? "(unnamed)" : name), a.end - a.start);
  }

  // Adds operators inside the Python calls that were recorded with them. Calls inside other operators have
  // the stack of these as well, so that only the operator's own time counts.
  void AddRecordedStacks(const Process& process, uint32_t root) {
    const capture::HostFrames& frames = *process.frames;
    const HostTree tree = BuildHostTree(capture_, process, FrameKinds{FrameKind::kOperator});
    for (const HostNode& node : tree.nodes) {
      const capture::HostFrame& frame = frames.frames[node.frame];
      if (frame.detail == kNone || !InStep(process, frame.start)) continue;
      std::string_view stack = capture_.Text(frames.details[frame.detail].stack);
      if (stack.empty()) continue;
      uint32_t place = root;
      // The innermost call is the first of the text.
      while (!stack.empty()) {
        const size_t before = stack.rfind(';');
        const size_t begin = before == std::string_view::npos ? 0 : before + 1;
        if (begin < stack.size()) place = Find(place, stack.substr(begin));
        stack = stack.substr(0, begin == 0 ? 0 : before);
      }
      Add(Find(place, capture_.Text(frame.name)), node.self_host);
    }
  }

  bool InStep(const Process& process, HostTime start) const {
    return options_.steps == nullptr || IsInStep(options_.steps->ranks[process.entries[0]].steps, start);
  }

  // Computes the totals and removes frames without time.
  void AddTotals() {
    std::vector<FlameNode>& nodes = tree_.nodes;
    for (size_t i = nodes.size(); i-- > 0;) {
      nodes[i].total += nodes[i].self;
      if (nodes[i].parent != kNone) nodes[nodes[i].parent].total += nodes[i].total;
    }
    std::vector<uint32_t> kept(nodes.size(), kNone);
    uint32_t count = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].total <= Nanos()) continue;
      kept[i] = count;
      FlameNode node = nodes[i];
      if (node.parent != kNone) node.parent = kept[node.parent];
      nodes[count++] = node;
    }
    nodes.resize(count);
  }

  const capture::Capture& capture_;
  const FlameOptions& options_;
  FlameTree tree_;
  absl::flat_hash_map<std::pair<uint32_t, std::string_view>, uint32_t> places_;
};

// Returns the time of each stack that has time of its own.
std::map<std::string, Nanos> StacksOf(const FlameTree& tree) {
  std::map<std::string, Nanos> stacks;
  std::vector<std::string> paths;
  for (const FlameNode& node : tree.nodes) {
    std::string name(node.name);
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c == ';' || c == '\n' || c == '\r'; }, ',');
    name = CleanText(name);
    paths.push_back(node.parent == kNone ? name : absl::StrCat(paths[node.parent], ";", name));
    if (node.self > Nanos()) stacks[paths.back()] += node.self;
  }
  return stacks;
}

}  // namespace

FlameTree BuildFlame(const capture::Capture& capture, const FlameOptions& options) {
  return Builder(capture, options).Build();
}

std::string FoldedStacks(const FlameTree& tree) {
  std::string out;
  for (const auto& [stack, time] : StacksOf(tree)) absl::StrAppend(&out, stack, " ", time.ns(), "\n");
  return out;
}

std::string FoldedDifference(const FlameTree& before, const FlameTree& after, const FlameParts& parts) {
  std::map<std::string, std::pair<Nanos, Nanos>> both;
  for (const auto& [stack, time] : StacksOf(before))
    both[stack].first = time / static_cast<int64_t>(parts.before);
  for (const auto& [stack, time] : StacksOf(after))
    both[stack].second = time / static_cast<int64_t>(parts.after);
  std::string out;
  for (const auto& [stack, times] : both)
    absl::StrAppend(&out, stack, " ", times.first.ns(), " ", times.second.ns(), "\n");
  return out;
}

}  // namespace lockstep::views
