// Who the lost time belongs to: an additive split of (step as it was) - (step with everything typical).
//
// Aumann-Shapley over the replay: going from typical to observed values in a straight line, each unit is charged for the part
// of the way on which it lay on the critical path. The step's length is convex and piecewise linear along that line, so a
// handful of replays gives the split exactly; the shares add up to the whole.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_ATTRIBUTION_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_ATTRIBUTION_H_

#include <cstdint>
#include <vector>

#include "aggregator/analysis/graph.h"
#include "aggregator/analysis/replay.h"

namespace lockstep::analysis {

struct Attribution {
  // Nanoseconds of the whole run of steps (not per step) that the unit's lead and work cost. Sums to `lost`.
  std::vector<double> cost;  // by unit
  double lost = 0;
  int replays = 0;
};

// From `ideal` to what the graph observed. `tolerance`: the split stops refining where it could move no more than this part of the
// lost time, and spreads that in proportion. `scratch` is overwritten.
Attribution Attribute(const Graph& graph, Replay& replay, const Timing& ideal, Timing& scratch, size_t steps, double tolerance);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_ATTRIBUTION_H_
