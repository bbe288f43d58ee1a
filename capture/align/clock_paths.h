// What chains of pairwise limits say about clocks that never met.
//
// "b leads a by 3 to 8, c leads b by -2 to 1" limits how far c leads a, and another chain may limit it more
// tightly, from above and from below by different ones. Pure functions, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_CLOCK_PATHS_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_CLOCK_PATHS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::align {

// How far `to` can lead `from` at one moment.
struct LeadRange {
  uint32_t from = 0;
  uint32_t to = 0;
  double low_ns = -std::numeric_limits<double>::infinity();
  double high_ns = std::numeric_limits<double>::infinity();
};

struct NodeRange {
  double low_ns = -std::numeric_limits<double>::infinity();
  double high_ns = std::numeric_limits<double>::infinity();
};

// By node: how far it can lead `origin`, by the tightest chain of each side; infinite where none leads there.
// nullopt when the ranges contradict each other around some cycle. Shortest paths over both directions of
// every range: O(nodes * ranges) at worst.
std::optional<std::vector<NodeRange>> ChainRanges(size_t nodes, uint32_t origin,
                                                  std::span<const LeadRange> ranges);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_CLOCK_PATHS_H_
