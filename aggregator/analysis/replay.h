// Running the replay graph with other leads and works than were observed.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_REPLAY_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_REPLAY_H_

#include <cstdint>
#include <vector>

#include "aggregator/analysis/graph.h"

namespace lockstep::analysis {

// What each unit takes; indices are units.
struct Timing {
  std::vector<double> lead;
  std::vector<double> work;
};
inline Timing ObservedTiming(const Graph& graph) { return {graph.lead, graph.work}; }

// One replay. Reusable: Run() overwrites the result of the run before.
class Replay {
 public:
  // `graph` must outlive it. `first_end`: when the step before the first used one ended, fixed in every replay.
  Replay(const Graph& graph, size_t steps, double first_end)
      : graph_(graph), time_(graph.units.size() * 2), step_end_(steps), first_end_(first_end) {}

  void Run(const Timing& timing);

  double At(NodeRef node) const { return time_[node]; }
  // The job's step k lasts from the last end of device work of step k - 1 on any rank to that of step k.
  std::vector<double> StepDurations() const;
  // Mean over the steps.
  double StepTime() const;

  // The chain of moments that decided when the last step ended, from the end back to the begin of the first used step: the
  // unit's end when its work was on the path, its start when its lead was.
  std::vector<NodeRef> CriticalPath() const;

 private:
  NodeRef Binding(NodeRef node) const;

  const Graph& graph_;
  std::vector<double> time_;
  std::vector<double> step_end_;
  double first_end_;
  uint32_t last_unit_ = store::kNone;  // whose end ended the last step
};

// End of the device work before the first used step; where there is none, the earliest begin of that step on any rank.
double FirstEnd(const Graph& graph, const GraphInput& input);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_REPLAY_H_
