#include "views/host/operator_passes.h"

#include <string_view>

#include "absl/strings/ascii.h"

namespace lockstep::views {
namespace {

using capture::kNone;

// True for nodes of the backward pass: "AddmmBackward0", and the frames in which autograd's engine runs them.
bool NamesBackward(std::string_view name) {
  if (name.starts_with("autograd::engine::evaluate_function") || name.starts_with("torch::autograd::"))
    return true;
  while (!name.empty() && absl::ascii_isdigit(static_cast<unsigned char>(name.back()))) name.remove_suffix(1);
  return name.ends_with("Backward") && name.find("::") == std::string_view::npos;
}

}  // namespace

bool IsOperatorFrame(const capture::HostFrame& frame, std::string_view name) {
  if (frame.kind != capture::FrameKind::kOperator) return false;
  if (name.starts_with("autograd::") || name.starts_with("torch::autograd::")) return true;
  return name.find_first_of(" #") == std::string_view::npos && !name.starts_with("DistributedDataParallel.");
}

OperatorPasses::OperatorPasses(const capture::Capture& capture, const capture::HostFrames& frames,
                               const HostTree& tree)
    : capture_(capture), frames_(frames), tree_(tree) {
  MarkBackward();
  IndexSequences();
}

void OperatorPasses::MarkBackward() {
  backward_.resize(tree_.nodes.size());
  for (size_t i = 0; i < tree_.nodes.size(); ++i) {
    const HostNode& node = tree_.nodes[i];
    const capture::HostFrame& frame = frames_.frames[node.frame];
    // A node comes before the nodes inside it.
    const bool inherited = node.parent != kNone && backward_[node.parent] != 0;
    const bool has_forward_thread =
        frame.detail != kNone && frames_.details[frame.detail].forward_thread.value() != 0;
    const bool is_operator = frame.kind == capture::FrameKind::kOperator;
    backward_[i] =
        inherited || has_forward_thread || (is_operator && NamesBackward(capture_.Text(frame.name)));
  }
}

void OperatorPasses::IndexSequences() {
  for (uint32_t i = 0; i < tree_.nodes.size(); ++i) {
    const int64_t sequence = SequenceOf(i);
    if (sequence < 0) continue;
    const capture::HostFrame& frame = FrameOf(i);
    if (backward_[i] != 0) {
      if (frames_.details[frame.detail].shapes != kNoName) backward_with_shapes_.try_emplace(sequence, i);
      continue;
    }
    const auto [it, fresh] = forward_.try_emplace(sequence, Made{.node = i});
    if (fresh) continue;
    const capture::HostFrame& other = FrameOf(it->second.node);
    if (other.thread != frame.thread) {
      if (!it->second.ambiguous) ++ambiguous_;
      it->second.ambiguous = true;
    }
    if (frame.start >= other.start) it->second.node = i;
  }
}

int64_t OperatorPasses::SequenceOf(uint32_t node) const {
  const capture::HostFrame& frame = FrameOf(node);
  return frame.detail == kNone ? -1 : frames_.details[frame.detail].sequence;
}

uint32_t OperatorPasses::ForwardOf(uint32_t node) const {
  for (; node != kNone && backward_[node] != 0; node = tree_.nodes[node].parent) {
    if (SequenceOf(node) < 0) continue;
    const auto it = forward_.find(SequenceOf(node));
    return it == forward_.end() || it->second.ambiguous ? kNone : it->second.node;
  }
  return kNone;
}

uint32_t OperatorPasses::BackwardOf(uint32_t node) const {
  const uint32_t top = TopOperator(node);
  for (; node != kNone; node = tree_.nodes[node].parent) {
    const int64_t sequence = SequenceOf(node);
    if (sequence < 0) continue;
    const auto made = forward_.find(sequence);
    const auto backward = backward_with_shapes_.find(sequence);
    if (made == forward_.end() || made->second.ambiguous || backward == backward_with_shapes_.end())
      return kNone;
    // Another operator with the same number may have made the node.
    return TopOperator(made->second.node) == top ? backward->second : kNone;
  }
  return kNone;
}

uint32_t OperatorPasses::TopOperator(uint32_t node) const {
  uint32_t top = kNone;
  for (; node != kNone; node = tree_.nodes[node].parent) {
    if (IsOperatorFrame(FrameOf(node), capture_.Text(FrameOf(node).name))) top = node;
  }
  return top;
}

}  // namespace lockstep::views
