// One rank's part of the replay graph: its units, and every edge inside the rank. Used by BuildGraph only.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_RANK_GRAPH_H_
#define LOCKSTEP_ANALYSIS_REPLAY_RANK_GRAPH_H_

#include <cstdint>
#include <vector>

#include "analysis/replay/graph.h"
#include "analysis/replay/shared_follows.h"

namespace lockstep::analysis {

// The end of `unit` waits for `from`.
struct AwaitEdge {
  NodeRef from;
  uint32_t unit;
};

// Positions of a rank's units. Device units follow the host units, in the order of RankData::activities.
struct RankUnits {
  uint32_t first = 0;
  uint32_t first_device = 0;
  uint32_t end = 0;
};

// A contradiction within this is rounding, because old traces have whole microseconds at both ends.
inline constexpr double kRoundingNs = 2'000;

// Appends the rank's units with their stamps and start predecessors to `graph`, whose origin must be set.
// Appends its waits to `awaits`, and the predecessors that only stamps show to `follows`.
RankUnits AppendRank(const GraphInput& input, uint32_t rank_index, Graph& graph,
                     std::vector<AwaitEdge>& awaits, std::vector<Follow>& follows);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_RANK_GRAPH_H_
