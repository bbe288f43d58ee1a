// Limits that chains of pairwise limits give for clocks that never met.
//
// If b leads a by 3 to 8 and c leads b by -2 to 1, then c leads a by 1 to 9. Another chain may give a tighter
// limit from above or from below. Pure functions, any thread.
#ifndef LOCKSTEP_CAPTURE_ALIGN_CLOCK_PATHS_H_
#define LOCKSTEP_CAPTURE_ALIGN_CLOCK_PATHS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::capture {

// The range by which `to` can lead `from` at one moment.
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

// Returns for each node the range by which it can lead `origin`, from the tightest chain on each side. The
// range is infinite if no chain reaches the node. nullopt: the ranges contradict each other around a cycle.
// Finds shortest paths over both directions of every range, at worst in O(nodes * ranges).
std::optional<std::vector<NodeRange>> ChainRanges(size_t nodes, uint32_t origin,
                                                  std::span<const LeadRange> ranges);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_CLOCK_PATHS_H_
