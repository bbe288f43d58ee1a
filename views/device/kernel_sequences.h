// What operators have their device do in the same order again and again: what a fused kernel or a CUDA graph
// could take together (Holistic Trace Analysis' frequent CUDA kernel sequences).
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_KERNEL_SEQUENCES_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_KERNEL_SEQUENCES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"
#include "views/device/launch_stats.h"

namespace lockstep::views {

// HTA's min_pattern_len.
inline constexpr size_t kLeastSequence = 3;
// What is longer is no pattern any more but a whole pass.
inline constexpr size_t kLongestSequence = 64;

// All calls of an operator or annotation that had the same work done, each with what it called itself.
struct KernelSequence {
  RankId rank = kNoRank;  // kNoRank: all
  std::string_view op;
  std::vector<NameId> work;  // kernels, copies and sets, in the order in which they started
  uint64_t calls = 0;
  Nanos host, device;  // sums; device: of the lengths of the work, as in HostTree
};

struct KernelSequences {
  std::vector<KernelSequence> rows;  // the most calls first, then the most device time
  uint64_t longer = 0;               // calls with more work than kLongestSequence: in no row
};

// An operator inside another has rows of its own beside that one's. Empty without frames.
KernelSequences KernelSequencesOf(const store::Capture& capture, LaunchRanks ranks);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_KERNEL_SEQUENCES_H_
