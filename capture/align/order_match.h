// Instances of one group from order alone: what each member still has, aligned as sequences.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_ORDER_MATCH_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_ORDER_MATCH_H_

#include <cstdint>
#include <span>
#include <vector>

#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::align {

// Collectives of one rank that no number explains, in order.
struct Unnumbered {
  uint32_t rank_index;
  std::vector<uint32_t> collectives;
};

// The members of each instance, instances in order, members in the order of `ranks`. Every collective is in
// exactly one. A record that one rank lost leaves a hole in its instance, never a shift; which rank lost it
// does not matter.
std::vector<std::vector<Member>> MatchInOrder(const store::Capture& capture,
                                              std::span<const Unnumbered> ranks);

// Graph-captured collectives: NCCL counts them once, when they are captured, but each replay runs the graph's
// nodes in one order. True where every collective is a graph's.
bool AllFromGraphs(const store::Capture& capture, std::span<const Unnumbered> ranks);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_ORDER_MATCH_H_
