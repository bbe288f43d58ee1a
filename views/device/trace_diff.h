// Compares two captures: the count and the summed time of each item, and their differences (HTA's trace
// diff).
#ifndef LOCKSTEP_VIEWS_DEVICE_TRACE_DIFF_H_
#define LOCKSTEP_VIEWS_DEVICE_TRACE_DIFF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/prepare/steps.h"
#include "capture/model/capture.h"

namespace lockstep::views {

// The items to compare.
//   - kKernel: kernels, copies and sets by name.
//   - kOperator: operators and annotations by name, with their time on the host.
//   - kCollective: collectives by operation and group size.
//   - kStep: steps by their place among the used steps.
enum class DiffKey : uint8_t { kKernel, kOperator, kCollective, kStep };

// The change of an item's count. The count is per step and rank if the other figures are.
enum class Change : uint8_t { kAdded, kDeleted, kIncreased, kDecreased, kUnchanged };

struct DiffSide {
  uint64_t count = 0;
  Nanos total;
  Nanos mean;  // `total` per step and rank; without steps, per rank
};

struct DiffRow {
  std::string key;
  DiffSide before, after;
  Nanos difference;  // of the `mean` times
  Change change = Change::kUnchanged;
};

// `steps` are those of `capture`.
struct DiffInput {
  const capture::Capture& capture;
  const analysis::Steps& steps;
};

struct TraceDiff {
  std::vector<DiffRow> rows;  // largest difference first
  bool per_step = false;      // both captures have steps, so only whole steps were counted
  uint64_t steps_before = 0, steps_after = 0;
  uint64_t ranks_before = 0, ranks_after = 0;
};

TraceDiff DiffOf(const DiffInput& before, const DiffInput& after, DiffKey key);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_DEVICE_TRACE_DIFF_H_
