// Ratios of a rank's kernel times to its peers': by the kernels' limiting factor, and beside communication or
// alone.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_KERNEL_RATIOS_H_
#define LOCKSTEP_ANALYSIS_COMPARE_KERNEL_RATIOS_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/compare/classes.h"
#include "analysis/compare/excess.h"
#include "analysis/compare/kernel_kind.h"
#include "analysis/compare/typical.h"

namespace lockstep::analysis {

struct TimeRatio {
  double own_ns = 0;    // medians of its classes, summed over their units
  double peers_ns = 0;  // the same for its peers
  uint32_t classes = 0;
  double ratio() const { return peers_ns > 0 ? own_ns / peers_ns : 1; }
  double excess_ns() const { return own_ns - peers_ns; }
};

// Kernels that the rank runs and its peers do not (extra_work.h).
struct ExtraKernels {
  double ns = 0;
  uint32_t count = 0;
  NameId most{};  // name of the kernel with most of that time
};

struct KernelRatios {
  TimeRatio all;  // without the extra kernels
  ExtraKernels extra;
  std::array<TimeRatio, kKernelKinds> by_kind;
  TimeRatio isolated,
      overlapped;  // kernels with almost no, or much, communication or copying at the same time
  // Share of the time in slower classes: of all kernels, and of those that arithmetic limits.
  double slower_share = 0, slower_math_share = 0;
  const TimeRatio& Of(KernelKind kind) const { return by_kind[static_cast<size_t>(kind)]; }
};

// Compares several ranks together. For ranks with slow steps, uses only those steps.
KernelRatios CompareKernels(const GraphInput& input, const Graph& graph, const Classes& classes,
                            const TypicalValues& typical, const Excess& excess, const KernelKinds& kinds,
                            std::span<const uint32_t> rank_indices);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_COMPARE_KERNEL_RATIOS_H_
