// Adds dependencies for ranks that lost the record of a collective: their next operation begins when the
// other members have left.
//
// Without this rule, the next operation waits for nothing that a replay can move, so it keeps the
// collective's waiting in every replay. Used by BuildGraph only.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_LOST_MEMBERS_H_
#define LOCKSTEP_ANALYSIS_REPLAY_LOST_MEMBERS_H_

#include <cstdint>
#include <vector>

#include "analysis/replay/graph.h"
#include "analysis/replay/rank_graph.h"

namespace lockstep::analysis {

// Adds start predecessors to `graph`, whose units, stamps and start predecessors must be set. `ranks` is by
// rank index.
void FollowLostMembers(const GraphInput& input, const std::vector<RankUnits>& ranks, Graph& graph);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_LOST_MEMBERS_H_
