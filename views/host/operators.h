// The operator view: the cost of PyTorch's operators and of the user's ranges, on host and device (PyTorch's
// key_averages(), torch-tb-profiler's operator view).
#ifndef LOCKSTEP_VIEWS_HOST_OPERATORS_H_
#define LOCKSTEP_VIEWS_HOST_OPERATORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::views {

// Each row is for one name. Every option divides the rows further.
struct OperatorGrouping {
  bool by_rank = false;
  bool by_shape = false;
  int stack_depth = 0;  // innermost calls of the stack; 0: rows are not divided by stack
};

struct Bytes {
  int64_t host = 0;
  int64_t device = 0;
};

// Sums over all calls of a group. A call inside another call of the same name counts in the totals of both,
// as in PyTorch. The annotations "ProfilerStep#17" of all steps have one row, "ProfilerStep".
struct OperatorRow {
  RankId rank = kNoRank;  // kNoRank: all ranks
  std::string_view name;
  std::string_view kind;  // "operator", "annotation"
  std::string_view shapes;
  std::string stack;
  uint64_t calls = 0;
  Nanos self_host, host;
  Nanos self_runtime;  // part of self_host in the CUDA runtime calls that it made itself
  Nanos self_device, device;
  Nanos self_tensor_core,
      tensor_core;                    // device time in kernels with a name of tensor cores
  bool tensor_core_eligible = false;  // the operator can use tensor cores
  // Allocated minus released bytes. Empty: the allocator was not recorded.
  std::optional<Bytes> self_memory, memory;
  uint64_t allocations = 0;  // directly in it
};

struct OperatorTotals {
  Nanos self_host, self_device;  // the totals for percentages
  uint64_t processes = 0;        // with frames
  uint64_t crossing = 0;         // HostTree::crossing
};

struct Operators {
  std::vector<OperatorRow> rows;  // longest self device time first, then self host time
  OperatorTotals totals;
};

// Texts point into `capture`. Empty without frames.
Operators OperatorsOf(const capture::Capture& capture, const OperatorGrouping& grouping);

// True if autocast runs this PyTorch operator in half precision, or if it is the backward pass of such an
// operator.
bool IsTensorCoreEligible(std::string_view op);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_OPERATORS_H_
