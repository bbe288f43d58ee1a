// Matches the remaining collectives of one group by order alone, aligned as sequences.
#ifndef LOCKSTEP_CAPTURE_ALIGN_ORDER_MATCH_H_
#define LOCKSTEP_CAPTURE_ALIGN_ORDER_MATCH_H_

#include <cstdint>
#include <span>
#include <vector>

#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::capture {

// Collectives of one rank that no number explains, in order.
struct Unnumbered {
  uint32_t rank_index;
  std::vector<uint32_t> collectives;
};

// Returns the members of each instance; instances are in order, and members by rank_index. Every collective
// is in exactly one instance. A record that a rank lost leaves a hole in its instance and shifts no other
// instance.
std::vector<std::vector<Member>> MatchInOrder(const capture::Capture& capture,
                                              std::span<const Unnumbered> ranks);

// True if every collective belongs to a CUDA graph. NCCL counts such a collective only once, when it is
// captured, but each replay runs the graph's nodes in the same order.
bool AllFromGraphs(const capture::Capture& capture, std::span<const Unnumbered> ranks);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_ORDER_MATCH_H_
