// Adds dependencies for barriers that no record shows, among ranks without host records.
//
// Hosts may wait for each other by means that leave no device work, for example a reduction over TCP. The
// members of a communicator are then idle, and begin the same operation together, soon after the last one of
// them has finished its work. Without this rule, their operations wait for nothing that a replay can move, so
// the idle time stays in every replay. Used by BuildGraph only.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_HIDDEN_BARRIERS_H_
#define LOCKSTEP_ANALYSIS_REPLAY_HIDDEN_BARRIERS_H_

#include <vector>

#include "analysis/replay/graph.h"
#include "analysis/replay/rank_graph.h"

namespace lockstep::analysis {

// Adds start predecessors to `graph`, whose units, stamps and start predecessors must be set. `ranks` is by
// rank index.
void FollowHiddenBarriers(const GraphInput& input, const std::vector<RankUnits>& ranks, Graph& graph);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_HIDDEN_BARRIERS_H_
