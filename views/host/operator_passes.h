// OperatorPasses finds the backward pass among a process's operators, and pairs its nodes with forward
// operators.
//
// PyTorch gives a node of the backward pass the sequence number of the forward operator that made it. All
// forward operators since the previous node have that number, too. The one that started last made the node.
#ifndef LOCKSTEP_VIEWS_HOST_OPERATOR_PASSES_H_
#define LOCKSTEP_VIEWS_HOST_OPERATOR_PASSES_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "capture/model/capture.h"
#include "views/host/host_tree.h"

namespace lockstep::views {

class OperatorPasses {
 public:
  // `capture`, `frames` and `tree` outlive it.
  OperatorPasses(const capture::Capture& capture, const capture::HostFrames& frames, const HostTree& tree);

  bool IsBackward(uint32_t node) const { return backward_[node] != 0; }
  // Returns the forward operator that made a node of the backward pass. kNone: it is unknown, or several
  // threads have the number.
  uint32_t ForwardOf(uint32_t node) const;
  // Returns the node of the backward pass, with shapes, that a forward operator made. kNone: there is none.
  uint32_t BackwardOf(uint32_t node) const;
  // Returns the outermost operator around the node, the node included; kNone: there is none.
  uint32_t TopOperator(uint32_t node) const;

  int64_t SequenceOf(uint32_t node) const;  // the node's own number; negative: it has none
  uint64_t ambiguous() const { return ambiguous_; }

 private:
  struct Made {
    uint32_t node = capture::kNone;
    bool ambiguous = false;
  };
  void MarkBackward();
  void IndexSequences();
  const capture::HostFrame& FrameOf(uint32_t node) const { return frames_.frames[tree_.nodes[node].frame]; }

  const capture::Capture& capture_;
  const capture::HostFrames& frames_;
  const HostTree& tree_;
  std::vector<uint8_t> backward_;  // by node
  absl::flat_hash_map<int64_t, Made> forward_;
  absl::flat_hash_map<int64_t, uint32_t>
      backward_with_shapes_;  // by sequence: the node of the backward pass with shapes
  uint64_t ambiguous_ = 0;
};

// True for operators, except the data loader's and the optimizer's ranges, which old traces also call
// operators.
bool IsOperatorFrame(const capture::HostFrame& frame, std::string_view name);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_OPERATOR_PASSES_H_
