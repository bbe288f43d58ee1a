// Finds device work that operators repeat in the same order. A fused kernel or a CUDA graph could replace it
// (Holistic Trace Analysis' frequent CUDA kernel sequences).
#ifndef LOCKSTEP_VIEWS_DEVICE_KERNEL_SEQUENCES_H_
#define LOCKSTEP_VIEWS_DEVICE_KERNEL_SEQUENCES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"
#include "views/device/launch_stats.h"

namespace lockstep::views {

// HTA's min_pattern_len.
inline constexpr size_t kLeastSequence = 3;
// A longer sequence is a whole pass and not a pattern.
inline constexpr size_t kLongestSequence = 64;

// All calls of an operator or annotation that ran the same work in the same order, including the work of
// operators inside the call.
struct KernelSequence {
  RankId rank = kNoRank;  // kNoRank: all ranks
  std::string_view op;
  std::vector<NameId> work;  // kernels, copies and sets, in the order of their starts
  uint64_t calls = 0;
  Nanos host, device;  // sums; `device` sums the durations of the work, as in HostTree
};

struct KernelSequences {
  std::vector<KernelSequence> rows;  // most calls first, then longest device time
  uint64_t longer = 0;               // calls with more work than kLongestSequence; they are in no row
};

// An operator inside another one has its own rows, too. Empty without frames.
KernelSequences KernelSequencesOf(const capture::Capture& capture, LaunchRanks ranks);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_DEVICE_KERNEL_SEQUENCES_H_
