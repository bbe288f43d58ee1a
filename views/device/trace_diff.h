// Two captures side by side: how often each thing ran in either, how long in sum, and what that differs by
// (HTA's trace diff).
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_TRACE_DIFF_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_TRACE_DIFF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/prepare/steps.h"
#include "capture/model/capture.h"

namespace lockstep::views {

// kKernel: kernels, copies and sets by name. kOperator: operators and annotations by name, with their time on
// the host. kCollective: by operation and size of the group. kStep: by place among the used steps.
enum class DiffKey : uint8_t { kKernel, kOperator, kCollective, kStep };

// By how often the thing ran, per step and rank where the figures are.
enum class Change : uint8_t { kAdded, kDeleted, kIncreased, kDecreased, kUnchanged };

struct DiffSide {
  uint64_t count = 0;
  Nanos total;
  Nanos normal;  // `total` per step and rank; without steps, per rank
};

struct DiffRow {
  std::string key;
  DiffSide before, after;
  Nanos difference;  // of the normal times
  Change change = Change::kUnchanged;
};

// `steps` are those of `capture`.
struct DiffInput {
  const store::Capture& capture;
  const analysis::Steps& steps;
};

struct TraceDiff {
  std::vector<DiffRow> rows;  // the largest difference first
  bool per_step = false;      // both have steps: only what is in whole steps was counted
  uint64_t steps_before = 0, steps_after = 0;
  uint64_t ranks_before = 0, ranks_after = 0;
};

TraceDiff DiffOf(const DiffInput& before, const DiffInput& after, DiffKey key);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_TRACE_DIFF_H_
