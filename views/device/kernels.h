// The kernel view: the time of every kernel, by name, or by what launched it with which parameters
// (torch-tb-profiler's kernel view).
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_KERNELS_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_KERNELS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::views {

struct KernelGrouping {
  bool by_rank = false;
  bool by_launch = false;  // operator, grid, block, registers, shared memory
};

struct KernelRow {
  RankId rank = kNoRank;  // kNoRank: all
  std::string_view name;
  bool communication = false;
  bool tensor_cores = false;  // as the name says
  // With by_launch: of the innermost operator around the launch. Empty: none, or frames were not kept.
  std::string_view launched_by;
  bool tensor_core_eligible = false;          // that operator could use them
  std::optional<store::KernelDetail> launch;  // with by_launch, where the source tells
  uint64_t calls = 0;
  Nanos total, least, most;
  double fraction = 0;  // of the time of all kernels
  // Means weighted by duration, over the calls that tell. Blocks: of the grid, per multiprocessor.
  std::optional<double> blocks_per_sm, occupancy;
};

// Texts point into `capture`. The most time first.
std::vector<KernelRow> KernelsOf(const store::Capture& capture, const KernelGrouping& grouping);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_KERNELS_H_
