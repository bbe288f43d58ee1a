// Forward and backward pass of a process: which of its operators are of which, and which belong together.
//
// PyTorch gives the node of the backward pass the sequence number that the forward operator had. All
// operators that ran since the node before have that number; the one that started last made it.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_OPERATOR_PASSES_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_OPERATOR_PASSES_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "capture/model/capture.h"
#include "views/host/host_tree.h"

namespace lockstep::views {

class OperatorPasses {
 public:
  // All outlive it.
  OperatorPasses(const store::Capture& capture, const store::HostFrames& frames, const HostTree& tree);

  bool IsBackward(uint32_t node) const { return backward_[node] != 0; }
  // Of a node of the backward pass: the operator that made it. kNone: none is known, or several threads have
  // the number.
  uint32_t ForwardOf(uint32_t node) const;
  // Of an operator of the forward pass: the node of the backward pass that was told its number, with shapes.
  // kNone: none.
  uint32_t BackwardOf(uint32_t node) const;
  // The outermost operator that holds it, itself included; kNone: none.
  uint32_t TopOperator(uint32_t node) const;

  int64_t SequenceOf(uint32_t node) const;  // its own; negative: none
  uint64_t ambiguous() const { return ambiguous_; }

 private:
  struct Made {
    uint32_t node = store::kNone;
    bool ambiguous = false;
  };
  void MarkBackward();
  void IndexSequences();
  const store::HostFrame& FrameOf(uint32_t node) const { return frames_.frames[tree_.nodes[node].frame]; }

  const store::Capture& capture_;
  const store::HostFrames& frames_;
  const HostTree& tree_;
  std::vector<uint8_t> backward_;  // by node
  absl::flat_hash_map<int64_t, Made> forward_;
  absl::flat_hash_map<int64_t, uint32_t> told_;  // by sequence: the node of the backward pass with shapes
  uint64_t ambiguous_ = 0;
};

// Operators, less what old traces call one: the data loader's and the optimizer's ranges.
bool IsOperatorFrame(const store::HostFrame& frame, std::string_view name);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_OPERATOR_PASSES_H_
