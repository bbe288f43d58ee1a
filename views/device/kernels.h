// The kernel view: the time of every kernel, by name, or also by operator and launch parameters
// (torch-tb-profiler's kernel view).
#ifndef LOCKSTEP_VIEWS_DEVICE_KERNELS_H_
#define LOCKSTEP_VIEWS_DEVICE_KERNELS_H_

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
  RankId rank = kNoRank;  // kNoRank: all ranks
  std::string_view name;
  bool communication = false;
  bool tensor_cores = false;  // by the kernel's name
  // With by_launch: the innermost operator around the launch. Empty: none, or frames were not kept.
  std::string_view launched_by;
  bool tensor_core_eligible = false;            // that operator can use tensor cores
  std::optional<capture::KernelDetail> launch;  // with by_launch; nullopt: unknown
  uint64_t calls = 0;
  Nanos total, least, most;
  double fraction = 0;  // of the time of all kernels
  // Means weighted by duration, over the calls for which they are known. `blocks_per_sm` counts the grid's
  // blocks per multiprocessor.
  std::optional<double> blocks_per_sm, occupancy;
};

// Texts point into `capture`. Rows are sorted by total time, longest first.
std::vector<KernelRow> KernelsOf(const capture::Capture& capture, const KernelGrouping& grouping);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_DEVICE_KERNELS_H_
