// Running the replay graph with other leads and works than were observed.
//
// Run() goes through the whole program; Rerun() computes only what differs from the Rerun() before, with the
// same result to the bit.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_REPLAY_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_REPLAY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/replay/critical_path.h"
#include "analysis/replay/graph.h"
#include "analysis/replay/schedule.h"

namespace lockstep::analysis {

// What each unit takes; indices are units.
struct Timing {
  std::vector<double> lead;
  std::vector<double> work;
  std::vector<double> beside;  // what collectives beside it add
};
inline Timing ObservedTiming(const Graph& graph) { return {graph.lead, graph.work, graph.beside}; }
// What comes on top of what the moment waits for.
inline double Added(const Timing& timing, NodeRef node) {
  const uint32_t u = UnitOf(node);
  return node % 2 == 0 ? timing.lead[u] : timing.work[u] + timing.beside[u];
}

// One replay. Reusable: a run overwrites the result of the one before. One thread.
class Replay {
 public:
  // `program` must outlive it.
  explicit Replay(const Program& program);

  void Run(const Timing& timing);
  // The same, given that `timing` differs from that of the Rerun() before at most in these units, which may
  // be named twice.
  void Rerun(const Timing& timing, std::span<const uint32_t> candidates);

  double At(NodeRef node) const { return AtSlot(program_.SlotOf(node)); }
  double AtSlot(uint32_t slot) const { return time_[slot]; }
  // The job's step k lasts from the last end of device work of step k - 1 on any rank to that of step k.
  std::vector<double> StepDurations() const;
  // From the end of the step before the first used one to that of the last.
  double TotalTime() const { return step_end_.empty() ? 0 : step_end_.back() - program_.first_end(); }
  // Mean over the steps.
  double StepTime() const {
    return step_end_.empty() ? 0 : TotalTime() / static_cast<double>(step_end_.size());
  }

  // What decided when the last step ended (critical_path.h).
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

  const Program& program_;
  PathFinder paths_;
  std::vector<double> added_;         // by slot
  std::vector<double> time_;          // by slot
  std::vector<double> last_of_step_;  // end of the last device work of each step
  std::vector<double> step_end_;
  // For Rerun(): may it follow the run before, what is to be computed anew, and the steps of which what ended
  // them moved forwards.
  bool is_known_ = false;
  std::vector<uint64_t> marked_;  // one bit per item
  std::vector<uint8_t> stale_steps_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_REPLAY_H_
