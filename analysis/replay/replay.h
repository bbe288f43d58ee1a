// Runs the replay graph with changed lags and works.
//
// Run() goes through the whole schedule. Rerun() computes only the differences from the previous Rerun(),
// with the same result to the bit.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_REPLAY_H_
#define LOCKSTEP_ANALYSIS_REPLAY_REPLAY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/replay/critical_path.h"
#include "analysis/replay/graph.h"
#include "analysis/replay/schedule.h"

namespace lockstep::analysis {

// Durations of each unit; indices are units.
struct Timing {
  std::vector<double> lag;
  std::vector<double> work;
  std::vector<double> contention;  // time that collectives beside it add
};
inline Timing ObservedTiming(const Graph& graph) { return {graph.lag, graph.work, graph.contention}; }
// The duration between the latest predecessor of a moment and the moment.
inline double Added(const Timing& timing, NodeRef node) {
  const uint32_t u = UnitOf(node);
  return node % 2 == 0 ? timing.lag[u] : timing.work[u] + timing.contention[u];
}

// One replay. Reusable: a run overwrites the previous result. One thread.
class Replay {
 public:
  // `schedule` must outlive it.
  explicit Replay(const Schedule& schedule);

  void Run(const Timing& timing);
  // The same result as Run(). `timing` may differ from that of the previous Rerun() only in these units,
  // which may be listed twice.
  void Rerun(const Timing& timing, std::span<const uint32_t> candidates);

  double At(NodeRef node) const { return AtSlot(schedule_.SlotOf(node)); }
  double AtSlot(uint32_t slot) const { return time_[slot]; }
  // The job's step k lasts from the last end of device work of step k - 1 on any rank to that of step k.
  std::vector<double> StepDurations() const;
  // From the end of the step before the first used one to the end of the last one.
  double TotalTime() const { return step_end_.empty() ? 0 : step_end_.back() - schedule_.first_end(); }
  // Mean over the steps.
  double StepTime() const {
    return step_end_.empty() ? 0 : TotalTime() / static_cast<double>(step_end_.size());
  }

  // The moments that decided when the last step ended (critical_path.h).
  std::vector<PathNode> CriticalPath();

 private:
  void Sweep(uint32_t item);  // from this item on
  void EndSteps();
  void Mark(uint32_t item) { marked_[item / 64] |= uint64_t{1} << (item % 64); }
  void MarkChanged(const Timing& timing, std::span<const uint32_t> candidates);
  void RunMarked();
  void Recompute(uint32_t item);
  void Move(uint32_t slot, double to);
  void FindStepEnds();

  const Schedule& schedule_;
  PathFinder paths_;
  std::vector<double> added_;         // by slot
  std::vector<double> time_;          // by slot
  std::vector<double> last_of_step_;  // end of the last device work of each step
  std::vector<double> step_end_;
  // State of Rerun(): whether a previous run can be continued, the items to compute again, and the steps
  // whose last moment moved to an earlier time.
  bool is_known_ = false;
  std::vector<uint64_t> marked_;  // one bit per item
  std::vector<uint8_t> stale_steps_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_REPLAY_H_
