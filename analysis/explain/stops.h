// Long pauses of hosts, of milliseconds: those of a single rank, and those that ranks share.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_STOPS_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_STOPS_H_

#include <vector>

#include "analysis/compare/excess.h"
#include "analysis/explain/explanation.h"

namespace lockstep::analysis {

struct Stops {
  std::vector<Pieces> of_rank;      // by rank index, without the shared ones
  std::vector<Explanation> shared;  // all hosts at once, or changing hosts
};
Stops FindStops(const GraphInput& input, const Graph& graph, const Excess& excess);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_STOPS_H_
