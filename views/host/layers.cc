#include "views/host/layers.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analysis/prepare/launches.h"
#include "analysis/time/utilization.h"
#include "views/host/device_peak.h"
#include "views/host/operator_cost.h"
#include "views/host/operator_passes.h"
#include "views/host/operators.h"

namespace lockstep::views {
namespace {

using capture::ActivityKind;
using capture::FrameDetail;
using capture::FrameKind;
using capture::kNone;

constexpr FrameKinds kLayerKinds{FrameKind::kOperator, FrameKind::kAnnotation, FrameKind::kModule};

// Stores each distinct text once, because few texts differ.
class Texts {
 public:
  explicit Texts(std::deque<std::string>& kept) : kept_(kept) {}
  std::string_view Keep(std::string&& text) {
    if (text.empty()) return "";
    if (const auto it = known_.find(text); it != known_.end()) return *it;
    return *known_.insert(kept_.emplace_back(std::move(text))).first;
  }

 private:
  std::deque<std::string>& kept_;
  absl::flat_hash_set<std::string_view> known_;
};

// The cost of an operator's call, and sums over the kernels that it launched.
struct CountedCall {
  OperatorCost cost;
  std::string_view type;  // of its first tensor
  Nanos time;
  size_t longest = 0;  // place of the row with the longest kernel
  bool tensor_cores = false;
};

// The operators of a process. Fill() copies their data into the rows of their kernels.
class ProcessOperators {
 public:
  ProcessOperators(const capture::Capture& capture, const Process& process, Texts& texts)
      : capture_(capture),
        frames_(*process.frames),
        tree_(BuildHostTree(capture, process, kLayerKinds)),
        passes_(capture, frames_, tree_),
        texts_(texts) {}

  const HostTree& tree() const { return tree_; }
  uint64_t ambiguous() const { return passes_.ambiguous(); }
  uint32_t TopOperator(uint32_t node) const { return passes_.TopOperator(node); }
  uint32_t ParentOf(uint32_t node) const { return tree_.nodes[node].parent; }
  uint32_t InnermostOperator(uint32_t node) const {
    while (node != kNone && !IsOperatorFrame(FrameOf(node), NameOf(node))) node = tree_.nodes[node].parent;
    return node;
  }

  // Sets all fields of the row that follow from the node.
  void Fill(uint32_t node, LayerRow& row) {
    row.thread = FrameOf(node).thread;
    AddSequences(node, row);
    const bool backward = passes_.IsBackward(node);
    row.direction = backward ? Direction::kBackward : Direction::kForward;
    if (const uint32_t innermost = InnermostOperator(node); innermost != kNone)
      row.called = NameOf(innermost);
    const uint32_t forward = backward ? passes_.ForwardOf(node) : kNone;
    const uint32_t source = forward == kNone ? node : forward;
    row.layer = LayerOf(source);
    row.trace = TraceOf(source);
    const uint32_t top = passes_.TopOperator(source);
    if (top == kNone) return;
    std::tie(row.module, row.op) = SplitName(NameOf(top));
    row.parameters = texts_.Keep(Describe(ArgumentsAt(top)));
  }

  OperatorCost CostAt(uint32_t node) {
    return IsOperatorFrame(FrameOf(node), NameOf(node)) ? CostOf(CallAt(node)) : OperatorCost();
  }
  std::string_view TypeAt(uint32_t node) {
    for (const Argument& a : ArgumentsAt(node)) {
      if (a.is_tensor && !a.type.empty()) return a.type;
    }
    return "";
  }
  // True if the operator, or one around it, can use tensor cores.
  bool CanUseTensorCores(uint32_t node) const {
    for (; node != kNone; node = tree_.nodes[node].parent) {
      if (IsTensorCoreEligible(NameOf(node))) return true;
      if (NameOf(node).starts_with("torch.") &&
          IsTensorCoreEligible(absl::StrCat("aten::", std::string(BareName(NameOf(node))))))
        return true;
    }
    return false;
  }

 private:
  const capture::HostFrame& FrameOf(uint32_t node) const { return frames_.frames[tree_.nodes[node].frame]; }
  std::string_view NameOf(uint32_t node) const { return capture_.Text(FrameOf(node).name); }
  const FrameDetail* DetailOf(uint32_t node) const {
    const uint32_t detail = FrameOf(node).detail;
    return detail == kNone ? nullptr : &frames_.details[detail];
  }

  void AddSequences(uint32_t node, LayerRow& row) const {
    for (; node != kNone; node = tree_.nodes[node].parent) {
      const int64_t sequence = passes_.SequenceOf(node);
      if (sequence < 0 || row.sequence == sequence) continue;
      if (!row.sequence) {
        row.sequence = sequence;
        continue;
      }
      row.alternate_sequence = sequence;
      return;
    }
  }

  static std::pair<std::string_view, std::string_view> SplitName(std::string_view name) {
    // Names with these characters belong to templates and autograd functions. Their dots and colons do not
    // separate a module.
    if (name.find_first_of("<( ") != std::string_view::npos) return {"", name};
    const size_t at = name.find_last_of(".:");
    if (at == std::string_view::npos) return {"", name};
    std::string_view before = name.substr(0, at);
    while (before.ends_with(':')) before.remove_suffix(1);
    return {before, name.substr(at + 1)};
  }

  std::string_view LayerOf(uint32_t node) {
    const uint32_t from = node;
    if (const auto it = layers_.find(from); it != layers_.end()) return it->second;
    std::string path;
    std::string_view modules;
    for (; node != kNone; node = tree_.nodes[node].parent) {
      if (const FrameDetail* detail = DetailOf(node); detail != nullptr && modules.empty())
        modules = capture_.Text(detail->modules);
      std::string_view name = NameOf(node);
      if (IsOperatorFrame(FrameOf(node), name) || name.starts_with("ProfilerStep#")) continue;
      // Users of PyProf mark layers with the first prefix. PyTorch marks modules with the second.
      for (const std::string_view prefix : {"layer:", "nn.Module: "}) {
        if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
      }
      path = path.empty() ? std::string(name) : absl::StrCat(std::string(name), "/", path);
    }
    if (!modules.empty())
      path = path.empty() ? std::string(modules) : absl::StrCat(path, "/", std::string(modules));
    return layers_[from] = texts_.Keep(std::move(path));
  }

  std::string_view TraceOf(uint32_t node) const {
    for (; node != kNone; node = tree_.nodes[node].parent) {
      const FrameDetail* detail = DetailOf(node);
      if (detail != nullptr && detail->stack != kNoName) return capture_.Text(detail->stack);
    }
    return "";
  }

  const std::vector<Argument>& ArgumentsAt(uint32_t node) {
    const FrameDetail* detail = DetailOf(node);
    const auto key = detail == nullptr ? std::tuple(kNoName, kNoName, kNoName)
                                       : std::tuple(detail->shapes, detail->types, detail->values);
    const auto [it, fresh] = arguments_.try_emplace(key);
    if (fresh && detail != nullptr) it->second = ArgumentsOf(*detail, capture_.strings);
    return it->second;
  }

  // Returns the call, with data from the operator around it and from the backward pass.
  OperatorCall CallAt(uint32_t node) {
    const uint32_t parent = tree_.nodes[node].parent;
    if (parent != kNone) around_ = {.name = NameOf(parent), .arguments = ArgumentsAt(parent)};
    OperatorCall call{
        .name = NameOf(node), .arguments = ArgumentsAt(node), .around = parent == kNone ? nullptr : &around_};
    if (!passes_.IsBackward(node)) call.output = OutputOf(node, call.name);
    return call;
  }

  // The first argument of an operator's backward node is the gradient of its result, so it has the result's
  // shape.
  std::optional<Shape> OutputOf(uint32_t node, std::string_view name) {
    const uint32_t backward_node = passes_.BackwardOf(node);
    if (backward_node == kNone) return std::nullopt;
    const std::string_view backward = NameOf(backward_node);
    const bool fits =
        (absl::StrContains(std::string(name), "conv") &&
         absl::StrContains(std::string(backward), "onvolution")) ||
        (absl::StrContains(std::string(name), "pool") && absl::StrContains(std::string(backward), "Pool"));
    const std::vector<Argument>& arguments = ArgumentsAt(backward_node);
    if (!fits || arguments.empty() || !arguments[0].is_tensor) return std::nullopt;
    return arguments[0].shape;
  }

  const capture::Capture& capture_;
  const capture::HostFrames& frames_;
  const HostTree tree_;
  const OperatorPasses passes_;
  Texts& texts_;
  OperatorCall around_;
  absl::flat_hash_map<uint32_t, std::string_view> layers_;
  absl::node_hash_map<std::tuple<NameId, NameId, NameId>, std::vector<Argument>> arguments_;
};

class LayersBuilder {
 public:
  explicit LayersBuilder(const capture::Capture& capture) : capture_(capture), texts_(out_.texts) {}

  void Add(const Process& process) {
    const size_t first = out_.rows.size();
    for (const uint32_t entry : process.entries) AddKernels(capture_.ranks[entry]);
    if (process.frames == nullptr) return;
    ProcessOperators operators(capture_, process, texts_);
    out_.ambiguous += operators.ambiguous();
    // Launches have the order of activities, like the rows.
    std::vector<uint32_t> nodes;
    std::vector<const capture::RankData*> ranks;
    for (const Launch& launch : operators.tree().launches) {
      const capture::RankData& rank = capture_.ranks[launch.activity.entry];
      if (rank.activities[launch.activity.activity].kind != ActivityKind::kKernel) continue;
      nodes.push_back(launch.node);
      ranks.push_back(&rank);
    }
    absl::flat_hash_map<uint32_t, uint32_t> kernels_of;  // by outermost operator
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i] == kNone) continue;
      LayerRow& row = out_.rows[first + i];
      operators.Fill(nodes[i], row);
      if (const uint32_t top = operators.TopOperator(nodes[i]); top != kNone) row.sub = kernels_of[top]++;
      if (!row.tensor_cores && operators.CanUseTensorCores(nodes[i])) row.tensor_cores = false;
    }
    Count(operators, nodes, ranks, first);
  }

  Layers Take() { return std::move(out_); }

 private:
  void AddKernels(const capture::RankData& rank) {
    uint64_t idx = 0;
    for (const capture::DeviceActivity& a : rank.activities) {
      if (a.kind != ActivityKind::kKernel) continue;
      LayerRow& row = out_.rows.emplace_back(LayerRow{.idx = idx++, .rank = rank.rank});
      row.kernel = capture_.Text(a.name);
      row.time = a.end - a.start;
      row.device = rank.device;
      row.stream = a.stream;
      if (a.detail < rank.kernel_details.size()) row.launch = &rank.kernel_details[a.detail];
      if (analysis::NamesTensorCores(row.kernel)) row.tensor_cores = true;
    }
  }

  // Returns, for each kernel, the innermost operator around it with a known cost. Returns kNone for a kernel
  // whose innermost operator has no known cost, if another operator inside the returned one counts: the work
  // would count twice.
  static std::vector<uint32_t> PlacesOf(ProcessOperators& operators, const std::vector<uint32_t>& nodes,
                                        absl::flat_hash_map<uint32_t, OperatorCost>& costs) {
    const auto is_known = [&](uint32_t node) {
      const auto [it, fresh] = costs.try_emplace(node);
      if (fresh) it->second = operators.CostAt(node);
      return it->second.known();
    };
    std::vector<uint32_t> places;
    std::vector<bool> direct;
    absl::flat_hash_set<uint32_t> holds_counted;
    for (const uint32_t node : nodes) {
      uint32_t place = operators.InnermostOperator(node);
      direct.push_back(place != kNone && is_known(place));
      while (place != kNone && !is_known(place)) place = operators.ParentOf(place);
      places.push_back(place);
      if (place == kNone) continue;
      for (uint32_t outer = operators.ParentOf(place); outer != kNone && holds_counted.insert(outer).second;)
        outer = operators.ParentOf(outer);
    }
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] != kNone && !direct[i] && holds_counted.contains(places[i])) places[i] = kNone;
    }
    return places;
  }

  void Count(ProcessOperators& operators, const std::vector<uint32_t>& nodes,
             const std::vector<const capture::RankData*>& ranks, size_t first) {
    absl::flat_hash_map<uint32_t, OperatorCost> costs;
    const std::vector<uint32_t> places = PlacesOf(operators, nodes, costs);
    absl::flat_hash_map<uint32_t, CountedCall> calls;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (places[i] == kNone) continue;
      const auto [it, fresh] = calls.try_emplace(
          places[i],
          CountedCall{.cost = costs[places[i]], .type = operators.TypeAt(places[i]), .longest = i});
      CountedCall& call = it->second;
      const LayerRow& row = out_.rows[first + i];
      call.time += row.time;
      call.tensor_cores |= row.tensor_cores == true;
      if (row.time > out_.rows[first + call.longest].time) call.longest = i;
    }
    for (const auto& [node, call] : calls)
      Give(call, ranks[call.longest]->properties, out_.rows[first + call.longest]);
  }

  static void Give(const CountedCall& call, const capture::DeviceProperties& device, LayerRow& row) {
    const double seconds = static_cast<double>(call.time.ns()) / 1e9;
    row.flop = call.cost.flop;
    row.bytes = call.cost.bytes;
    if (row.flop) row.flop_time = call.time;
    if (row.bytes) row.bytes_time = call.time;
    const auto peak =
        PeakFlopPerS(device, call.type, call.tensor_cores ? MathUnits::kTensorCores : MathUnits::kPlain);
    if (row.flop && peak) row.peak_flop = *peak * seconds;
    if (row.bytes && device.memory_bytes_per_s != 0)
      row.peak_bytes = static_cast<double>(device.memory_bytes_per_s) * seconds;
  }

  const capture::Capture& capture_;
  Layers out_;
  Texts texts_;
};

template <typename T>
void AddTo(std::optional<T>& sum, const std::optional<T>& more) {
  if (more) sum = sum.value_or(T()) + *more;
}

// The sums of counts and of peaks must cover the same rows. If one row lacks the peak, the sum has none.
void AddCounts(const LayerRow& row, LayerRow& sum) {
  const bool first_flop = !sum.flop;
  const bool first_bytes = !sum.bytes;
  if (row.flop) {
    if (first_flop) {
      sum.peak_flop = row.peak_flop;
    } else if (sum.peak_flop) {
      sum.peak_flop = row.peak_flop ? std::optional(*sum.peak_flop + *row.peak_flop) : std::nullopt;
    }
  }
  if (row.bytes) {
    if (first_bytes) {
      sum.peak_bytes = row.peak_bytes;
    } else if (sum.peak_bytes) {
      sum.peak_bytes = row.peak_bytes ? std::optional(*sum.peak_bytes + *row.peak_bytes) : std::nullopt;
    }
  }
  AddTo(sum.flop, row.flop);
  AddTo(sum.bytes, row.bytes);
  sum.flop_time += row.flop_time;
  sum.bytes_time += row.bytes_time;
}

std::vector<LayerRow> Grouped(const std::vector<LayerRow>& rows, LayerGrouping grouping) {
  std::vector<LayerRow> sums;
  absl::flat_hash_map<std::tuple<std::string_view, std::string_view, std::string_view, Direction>, size_t>
      places;
  for (const LayerRow& row : rows) {
    const bool by_layer = grouping == LayerGrouping::kLayer;
    const auto key = by_layer ? std::tuple(row.layer, std::string_view(), std::string_view(), row.direction)
                              : std::tuple(std::string_view(), row.module, row.op, row.direction);
    const auto [it, fresh] = places.try_emplace(key, sums.size());
    if (fresh) {
      LayerRow& sum = sums.emplace_back(LayerRow{.direction = row.direction, .kernels = 0});
      std::tie(sum.layer, sum.module, sum.op, std::ignore) = key;
    }
    LayerRow& sum = sums[it->second];
    sum.time += row.time;
    ++sum.kernels;
    AddCounts(row, sum);
  }
  std::stable_sort(sums.begin(), sums.end(),
                   [](const LayerRow& a, const LayerRow& b) { return a.time > b.time; });
  for (size_t i = 0; i < sums.size(); ++i) sums[i].idx = i;
  return sums;
}

}  // namespace

Layers LayersOf(const capture::Capture& capture, LayerGrouping grouping) {
  LayersBuilder builder(capture);
  for (const Process& process : ProcessesOf(capture)) builder.Add(process);
  Layers layers = builder.Take();
  if (grouping != LayerGrouping::kNone) layers.rows = Grouped(layers.rows, grouping);
  return layers;
}

}  // namespace lockstep::views
