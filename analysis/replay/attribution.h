// Splits the lost time additively over units: (observed step) - (step with everything typical).
//
// The method is Aumann-Shapley over the replay. On a straight line from typical to observed values, each unit
// is charged for the part of the line on which it lies on the critical path. The step's length is convex and
// piecewise linear on that line. So tangents at two points meet at its breakpoint, if there is only one
// between them. The shares add up to the whole even with few points. Each unit is then charged along a path
// that is at most `unrefined` shorter than the longest one.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_ATTRIBUTION_H_
#define LOCKSTEP_ANALYSIS_REPLAY_ATTRIBUTION_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/replay/replay.h"
#include "analysis/replay/schedule.h"

namespace lockstep::analysis {

struct Attribution {
  // Nanoseconds of the whole run of steps (not per step) that the unit's lag and work cost. Sums to `lost`.
  std::vector<double> cost;  // by unit
  // By NodeRef: the part of the line on which that moment was critical, if its unit differs from typical. A
  // piece of a unit's lag or work costs the piece times this.
  std::vector<float> weight;
  double lost = 0;
  double unrefined = 0;
  int replays = 0;
};

struct AttributionLimits {
  double tolerance = 5e-4;  // refinement stops when `unrefined` is below this share of the lost time,
  int replays = 64;         // or after this many replays
};

// Splits the difference between `ideal` and the observed lags and works of the schedule's graph. The time
// that collectives add stays that of `ideal`. `use_ideal`, if given, receives the times of the replay of
// `ideal`, by node, before the split needs most of its memory.
using UseIdealTimes = std::function<void(std::vector<double> times)>;
Attribution Attribute(const Schedule& schedule, const Durations& ideal, const AttributionLimits& limits,
                      const UseIdealTimes& use_ideal = {});

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_ATTRIBUTION_H_
