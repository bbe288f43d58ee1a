// Durations of the units, and the moments of a replay that follow from them.
//
// A replay of several points stores one time per node of the graph. The end of a unit is computed when it is
// read, from the node that it is anchored at and the unit's work. The same sum gives the same bits each time.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_TIMING_H_
#define LOCKSTEP_ANALYSIS_REPLAY_TIMING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// Durations of each unit; indices are units.
struct Timing {
  std::vector<double> lag;
  std::vector<double> work;
  std::vector<double> contention;  // time that collectives beside it add
};
inline Timing ObservedTiming(const Graph& graph) { return {graph.lag, graph.work, graph.contention}; }

// The durations of a Timing or of a graph, without a copy. Valid while their vectors are.
struct Durations {
  const double* lag = nullptr;
  const double* work = nullptr;
  const double* contention = nullptr;

  Durations() = default;
  // Implicit, so that a replay takes a Timing.
  Durations(const Timing& timing)  // NOLINT(google-explicit-constructor)
      : lag(timing.lag.data()), work(timing.work.data()), contention(timing.contention.data()) {}
  explicit Durations(const Graph& graph)
      : lag(graph.lag.data()), work(graph.work.data()), contention(graph.contention.data()) {}

  // The time from the unit's anchor to its end.
  double ToEnd(uint32_t unit) const { return work[unit] + contention[unit]; }
};

// The durations at a point of the straight line between two timings.
struct LinePoint {
  Durations from, to;
  double at = 0;

  double ToEnd(uint32_t unit) const {
    const double begin = from.ToEnd(unit);
    return begin + at * (to.ToEnd(unit) - begin);
  }
};

// All moments of one replay: as stored, or with ends computed from times by node. The durations must still be
// those that were replayed.
class Moments {
 public:
  explicit Moments(const double* by_moment) : times_(by_moment) {}
  Moments(const Graph& graph, const LinePoint& durations, const double* by_node, size_t stride)
      : times_(by_node), stride_(stride), graph_(&graph), durations_(durations) {}

  double Start(uint32_t unit) const { return times_[stride_ * unit]; }
  double End(uint32_t unit) const {
    if (graph_ == nullptr) return times_[EndOf(unit)];
    return times_[stride_ * graph_->anchor[unit]] + durations_.ToEnd(unit);
  }
  double operator[](NodeRef moment) const {
    return moment % 2 == 0 ? Start(UnitOf(moment)) : End(UnitOf(moment));
  }

 private:
  const double* times_;
  size_t stride_ = 2;
  const Graph* graph_ = nullptr;
  LinePoint durations_{};
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_TIMING_H_
