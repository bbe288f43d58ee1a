// Who the lost time belongs to: an additive split of (step as it was) - (step with everything typical).
//
// Aumann-Shapley over the replay: going from typical to observed values in a straight line, each unit is
// charged for the part of the way on which it lay on the critical path. The step's length is convex and
// piecewise linear along that line: tangents at two points meet at its breakpoint, where there is only one
// between them. The shares add up to the whole however few points were looked at: then each is charged along
// a path that is at most `unrefined` shorter than the longest one.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_ATTRIBUTION_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_ATTRIBUTION_H_

#include <cstdint>
#include <vector>

#include "analysis/replay/replay.h"
#include "analysis/replay/schedule.h"

namespace lockstep::analysis {

struct Attribution {
  // Nanoseconds of the whole run of steps (not per step) that the unit's lead and work cost. Sums to `lost`.
  std::vector<double> cost;  // by unit
  // By NodeRef: part of the way on which that moment was critical, and its unit other than typical. What a
  // piece of a unit's lead or work costs is the piece times this.
  std::vector<float> weight;
  double lost = 0;
  double unrefined = 0;
  int replays = 0;
};

struct AttributionLimits {
  double tolerance = 5e-4;  // refining stops when `unrefined` is below this part of the lost time,
  int replays = 64;         // or after this many
};

// From `ideal` to what the program's graph observed. `at_ideal`, where given, receives every moment of the
// replay of `ideal`, by NodeRef.
Attribution Attribute(const Program& program, const Timing& ideal, const AttributionLimits& limits,
                      std::vector<double>* at_ideal = nullptr);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_ATTRIBUTION_H_
