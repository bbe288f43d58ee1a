// One rank's part of the replay graph: its units and every edge that does not leave the rank. Used by BuildGraph only.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_RANK_GRAPH_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_RANK_GRAPH_H_

#include <cstdint>
#include <vector>

#include "aggregator/analysis/graph.h"

namespace lockstep::analysis {

// Where a node depends on another; collected in any order, turned into rows of the graph at the end.
struct Edge {
  NodeRef from;
  uint32_t unit;
};

struct RankGraph {
  uint32_t first_unit = 0;    // numbers below are relative to the whole graph
  uint32_t first_device = 0;  // device units follow the host units, in the order of RankData::activities
  std::vector<Unit> units;
  std::vector<HostTime> start, end;
  std::vector<Edge> start_edges;  // sorted by unit
  std::vector<Edge> await_edges;  // sorted by unit
  uint64_t cut_edges = 0;
};

// `slack`: a contradiction within it is rounding.
RankGraph BuildRankGraph(const GraphInput& input, uint32_t rank_index, uint32_t first_unit, Nanos slack);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_RANK_GRAPH_H_
