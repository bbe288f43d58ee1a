// The operator view: what PyTorch's operators and the user's ranges cost, on the host and on the device
// (PyTorch's key_averages(), the operator view of torch-tb-profiler).
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_OPERATORS_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_OPERATORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::views {

// Rows are of one name; each option tells further apart.
struct OperatorGrouping {
  bool by_rank = false;
  bool by_shape = false;
  int stack_depth = 0;  // innermost calls of the stack; 0: stacks are not told apart
};

struct Bytes {
  int64_t host = 0;
  int64_t device = 0;
};

// Sums over all calls of a group. A call inside another of the same name counts in the totals of both, as in
// PyTorch.
struct OperatorRow {
  RankId rank = kNoRank;  // kNoRank: all
  std::string_view name;
  std::string_view kind;  // "operator", "annotation"
  std::string_view shapes;
  std::string stack;
  uint64_t calls = 0;
  Nanos self_host, host;
  Nanos self_runtime;  // the part of self_host in CUDA's runtime calls that it made itself
  Nanos self_device, device;
  Nanos self_tensor_core,
      tensor_core;  // parts of the device time in kernels whose name says that they use tensor cores
  bool tensor_core_eligible = false;  // of the operators that can use them
  // What was allocated less what was released. Empty where the allocator was not recorded.
  std::optional<Bytes> self_memory, memory;
  uint64_t allocations = 0;  // in it directly
};

struct OperatorTotals {
  Nanos self_host, self_device;  // what percentages are of
  uint64_t processes = 0;        // with frames
  uint64_t crossing = 0;         // HostTree::crossing
};

struct Operators {
  std::vector<OperatorRow> rows;  // the most self device time first, then self host time
  OperatorTotals totals;
};

// Texts point into `capture`. Empty without frames.
Operators OperatorsOf(const store::Capture& capture, const OperatorGrouping& grouping);

// Does PyTorch run this operator in half precision under autocast, or is it the backward pass of one that it
// does?
bool IsTensorCoreEligible(std::string_view op);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_OPERATORS_H_
