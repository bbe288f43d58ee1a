#include "views/host/operators.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "analysis/time/utilization.h"
#include "views/host/host_tree.h"

namespace lockstep::views {
namespace {

using capture::FrameKind;
using capture::HostFrame;
using capture::kNone;

// Returns the innermost `depth` calls of a stack such as "a;b;c".
std::string_view Innermost(std::string_view stack, int depth) {
  size_t end = 0;
  for (int i = 0; i < depth && end != std::string_view::npos; ++i)
    end = stack.find(';', i == 0 ? 0 : end + 1);
  return stack.substr(0, end);
}

// Allocations in each node, alone and with the nodes inside it.
struct NodeMemory {
  Bytes self, total;
  uint64_t allocations = 0;
};

std::vector<NodeMemory> MemoryOf(const capture::HostFrames& frames, const HostTree& tree) {
  std::vector<NodeMemory> memory(frames.allocations.empty() ? 0 : tree.nodes.size());
  for (const capture::AllocationEvent& event : frames.allocations) {
    const uint32_t node = tree.At(frames, event.thread, event.time);
    if (node == kNone) continue;
    (event.device < 0 ? memory[node].self.host : memory[node].self.device) += event.bytes;
    if (event.bytes > 0) ++memory[node].allocations;
  }
  for (NodeMemory& m : memory) m.total = m.self;
  for (size_t i = memory.size(); i-- > 0;) {
    const uint32_t parent = tree.nodes[i].parent;
    if (parent == kNone) continue;
    memory[parent].total.host += memory[i].total.host;
    memory[parent].total.device += memory[i].total.device;
  }
  return memory;
}

void Add(std::optional<Bytes>& to, const Bytes& more) {
  if (!to) to.emplace();
  to->host += more.host;
  to->device += more.device;
}

class OperatorTable {
 public:
  OperatorTable(const capture::Capture& capture, const OperatorGrouping& grouping)
      : capture_(capture), grouping_(grouping) {}

  void Add(const Process& process) {
    const capture::HostFrames& frames = *process.frames;
    const HostTree tree = BuildHostTree(capture_, process, kOperatorsAndAnnotations);
    const std::vector<NodeMemory> memory = MemoryOf(frames, tree);
    const std::vector<Nanos> runtime = RuntimeTimes(process, tree);
    const auto [self_tensor, tensor] = TensorCoreTimes(tree);
    for (size_t i = 0; i < tree.nodes.size(); ++i) {
      const HostNode& node = tree.nodes[i];
      OperatorRow& row = RowOf(process.rank, frames, frames.frames[node.frame]);
      ++row.calls;
      row.self_host += node.self_host;
      row.host += node.host;
      row.self_runtime += std::min(runtime[i], node.self_host);
      row.self_device += node.self_device;
      row.device += node.device;
      row.self_tensor_core += self_tensor[i];
      row.tensor_core += tensor[i];
      out_.totals.self_host += node.self_host;
      out_.totals.self_device += node.self_device;
      if (memory.empty()) continue;
      views::Add(row.self_memory, memory[i].self);
      views::Add(row.memory, memory[i].total);
      row.allocations += memory[i].allocations;
    }
    ++out_.totals.processes;
    out_.totals.crossing += tree.crossing;
  }

  Operators Take() {
    std::sort(out_.rows.begin(), out_.rows.end(), [](const OperatorRow& a, const OperatorRow& b) {
      return std::tie(b.self_device, b.self_host, a.name, a.rank, a.shapes, a.stack) <
             std::tie(a.self_device, a.self_host, b.name, b.rank, b.shapes, b.stack);
    });
    return std::move(out_);
  }

 private:
  struct Key {
    RankId rank;
    NameId name;
    NameId shapes;
    std::string_view stack;
    FrameKind kind;
    auto operator<=>(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& k) {
      return H::combine(std::move(h), k.rank, k.name, k.shapes, std::hash<std::string_view>()(k.stack),
                        k.kind);
    }
  };

  OperatorRow& RowOf(RankId rank, const capture::HostFrames& frames, const HostFrame& frame) {
    const bool step = capture_.Text(frame.name).starts_with("ProfilerStep#");
    // Steps differ only in their number, so they have one row.
    if (step && !step_name_) step_name_ = frame.name;
    Key key{.rank = grouping_.by_rank ? rank : kNoRank,
            .name = step ? *step_name_ : frame.name,
            .kind = frame.kind};
    if (frame.detail != kNone) {
      const capture::FrameDetail& detail = frames.details[frame.detail];
      if (grouping_.by_shape) key.shapes = detail.shapes;
      if (grouping_.stack_depth > 0)
        key.stack = Innermost(capture_.Text(detail.stack), grouping_.stack_depth);
    }
    const auto [it, fresh] = places_.try_emplace(key, out_.rows.size());
    if (!fresh) return out_.rows[it->second];
    return out_.rows.emplace_back(
        OperatorRow{.rank = key.rank,
                    .name = step ? "ProfilerStep" : capture_.Text(key.name),
                    .kind = key.kind == FrameKind::kOperator ? "operator" : "annotation",
                    .shapes = capture_.Text(key.shapes),
                    .stack = std::string(key.stack),
                    .tensor_core_eligible = IsTensorCoreEligible(capture_.Text(key.name))});
  }

  // Returns, by node, the time in CUDA's runtime calls. Driver calls are inside runtime calls, so they are
  // left out.
  std::vector<Nanos> RuntimeTimes(const Process& process, const HostTree& tree) const {
    std::vector<Nanos> times(tree.nodes.size());
    for (const uint32_t entry : process.entries) {
      for (const capture::ApiCall& call : capture_.ranks[entry].api_calls) {
        const uint32_t node = call.driver ? kNone : tree.At(*process.frames, call.thread, call.start);
        if (node != kNone) times[node] += call.end - call.start;
      }
    }
    return times;
  }

  // Returns, by node, the self time and the total time in kernels that use tensor cores.
  std::pair<std::vector<Nanos>, std::vector<Nanos>> TensorCoreTimes(const HostTree& tree) {
    std::vector<Nanos> self(tree.nodes.size());
    for (const Launch& launch : tree.launches) {
      if (launch.node == kNone) continue;
      const capture::DeviceActivity& a =
          capture_.ranks[launch.activity.entry].activities[launch.activity.activity];
      if (a.kind != capture::ActivityKind::kKernel) continue;
      const auto [it, fresh] = tensor_core_.try_emplace(a.name, false);
      if (fresh) it->second = analysis::NamesTensorCores(capture_.Text(a.name));
      if (it->second) self[launch.node] += a.end - a.start;
    }
    std::vector<Nanos> total = self;
    for (size_t i = total.size(); i-- > 0;) {
      if (tree.nodes[i].parent != kNone) total[tree.nodes[i].parent] += total[i];
    }
    return {std::move(self), std::move(total)};
  }

  const capture::Capture& capture_;
  const OperatorGrouping grouping_;
  Operators out_;
  std::optional<NameId> step_name_;  // of the first step; stands for all
  absl::flat_hash_map<Key, size_t> places_;
  absl::flat_hash_map<NameId, bool> tensor_core_;
};

}  // namespace

bool IsTensorCoreEligible(std::string_view op) {
  // PyTorch's list of operators that autocast runs in half precision, and their backward operators.
  static constexpr auto kNames =
      std::to_array<std::string_view>({"AddbmmBackward",
                                       "AddmmBackward",
                                       "AddmmBackward0",
                                       "AddmvBackward",
                                       "AddmvBackward0",
                                       "BmmBackward0",
                                       "ConvolutionBackward0",
                                       "CudnnConvolutionBackward",
                                       "CudnnConvolutionTransposeBackward",
                                       "MmBackward",
                                       "MmBackward0",
                                       "MvBackward",
                                       "MvBackward0",
                                       "aten::_convolution",
                                       "aten::_scaled_dot_product_cudnn_attention",
                                       "aten::_scaled_dot_product_flash_attention",
                                       "aten::_thnn_fused_gru_cell",
                                       "aten::_thnn_fused_lstm_cell",
                                       "aten::addbmm",
                                       "aten::addmm",
                                       "aten::addmm_",
                                       "aten::addmv",
                                       "aten::addr",
                                       "aten::baddbmm",
                                       "aten::bmm",
                                       "aten::chain_matmul",
                                       "aten::conv1d",
                                       "aten::conv2d",
                                       "aten::conv3d",
                                       "aten::conv_tbc",
                                       "aten::conv_transpose1d",
                                       "aten::conv_transpose2d",
                                       "aten::conv_transpose3d",
                                       "aten::convolution",
                                       "aten::convolution_backward",
                                       "aten::cudnn_convolution",
                                       "aten::cudnn_convolution_backward",
                                       "aten::cudnn_convolution_backward_input",
                                       "aten::cudnn_convolution_backward_weight",
                                       "aten::cudnn_convolution_transpose",
                                       "aten::cudnn_convolution_transpose_backward",
                                       "aten::cudnn_convolution_transpose_backward_input",
                                       "aten::cudnn_convolution_transpose_backward_weight",
                                       "aten::gru_cell",
                                       "aten::linalg_multi_dot",
                                       "aten::linalg_vecdot",
                                       "aten::linear",
                                       "aten::lstm_cell",
                                       "aten::matmul",
                                       "aten::mm",
                                       "aten::mv",
                                       "aten::prelu",
                                       "aten::rnn_relu_cell",
                                       "aten::rnn_tanh_cell",
                                       "aten::scaled_dot_product_attention"});
  static_assert(std::is_sorted(kNames.begin(), kNames.end()));
  return std::binary_search(kNames.begin(), kNames.end(), op);
}

Operators OperatorsOf(const capture::Capture& capture, const OperatorGrouping& grouping) {
  OperatorTable table(capture, grouping);
  for (const Process& process : ProcessesOf(capture)) {
    if (process.frames != nullptr) table.Add(process);
  }
  return table.Take();
}

}  // namespace lockstep::views
