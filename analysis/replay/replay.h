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
#include "analysis/replay/timing.h"

namespace lockstep::analysis {

// One replay. Reusable: a run overwrites the previous result. One thread.
class Replay {
 public:
  // `schedule` must outlive it.
  explicit Replay(const Schedule& schedule);

  void Run(const Durations& timing);
  // The same result as Run(). `timing` may differ from that of the previous Rerun() only in these units,
  // which may be listed twice.
  void Rerun(const Durations& timing, std::span<const uint32_t> candidates);

  double At(NodeRef moment) const { return time_[moment]; }
  // The job's step k lasts from the last end of device work of step k - 1 on any rank to that of step k.
  std::vector<double> StepDurations() const;
  // From the end of the step before the first used one to the end of the last one.
  double TotalTime() const { return step_end_.empty() ? 0 : step_end_.back() - schedule_.first_end(); }
  // Mean over the steps.
  double StepTime() const {
    return step_end_.empty() ? 0 : TotalTime() / static_cast<double>(step_end_.size());
  }

  // The moments that decided when the last step ended (critical_path.h).
  std::vector<PathNode> CriticalPath() const;

 private:
  void Sweep(const Durations& timing, uint32_t place);  // from this place of the schedule on
  double ReadyAt(std::span<const NodeRef> preds) const;
  void EndSteps();
  void Mark(uint32_t place) { marked_[place / 64] |= uint64_t{1} << (place % 64); }
  void MarkCandidates(std::span<const uint32_t> candidates);
  void RunMarked(const Durations& timing);
  void Recompute(const Durations& timing, uint32_t place);
  bool MoveEnd(uint32_t unit, double to);
  void FindStepEnd(size_t step);

  const Schedule& schedule_;
  std::vector<double> time_;          // by NodeRef
  std::vector<double> last_of_step_;  // end of the last device work of each step
  std::vector<double> step_end_;
  // State of Rerun(): whether a previous run can be continued, the places to compute again, and the steps
  // whose last moment moved to an earlier time.
  bool is_known_ = false;
  std::vector<uint64_t> marked_;  // one bit per place
  std::vector<uint8_t> stale_steps_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_REPLAY_H_
