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

// The part of one rank. Units and moments count from its first unit.
struct RankGraph {
  Graph graph;  // units with their stamps, and what their starts follow
  RankUnits units;
  std::vector<AwaitEdge> awaits;
  std::vector<Follow> follows;  // predecessors that only stamps show; they are in `graph` too
};
// `origin`: the graph's. Any thread.
RankGraph BuildRank(const GraphInput& input, uint32_t rank_index, JobTime origin);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_RANK_GRAPH_H_
