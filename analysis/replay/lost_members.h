// What a rank does next whose record of a collective was lost: it begins when the others have left.
//
// Without this its next operation waits for nothing that a replay could move, and keeps what the collective
// waited whoever gets faster. Used by BuildGraph only.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_LOST_MEMBERS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_LOST_MEMBERS_H_

#include <cstdint>
#include <vector>

#include "analysis/replay/graph.h"
#include "analysis/replay/rank_graph.h"

namespace lockstep::analysis {

// Adds start predecessors to `graph`, of which units, stamps and start predecessors are known; `ranks` by
// rank index.
void FollowLostMembers(const GraphInput& input, const std::vector<RankUnits>& ranks, Graph& graph);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_LOST_MEMBERS_H_
