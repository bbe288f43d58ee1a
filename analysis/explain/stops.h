// Hosts that stand still for milliseconds: which stops are a rank's own, and which are everybody's.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_STOPS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_STOPS_H_

#include <vector>

#include "analysis/compare/excess.h"
#include "analysis/explain/explanation.h"

namespace lockstep::analysis {

struct Stops {
  std::vector<Pieces> of_rank;      // by rank index, less those that are everybody's
  std::vector<Explanation> shared;  // all hosts at once, or now this one, now that
};
Stops FindStops(const GraphInput& input, const Graph& graph, const Excess& excess);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_STOPS_H_
