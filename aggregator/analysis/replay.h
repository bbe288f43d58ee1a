// Running the replay graph with other leads and works than were observed.
//
// Run() goes through the whole graph; Rerun() computes only what differs from the Rerun() before, with the same result to the bit.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_REPLAY_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_REPLAY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "aggregator/analysis/followers.h"
#include "aggregator/analysis/graph.h"

namespace lockstep::analysis {

// What each unit takes; indices are units.
struct Timing {
  std::vector<double> lead;
  std::vector<double> work;
  std::vector<double> beside;  // what collectives beside it add
};
inline Timing ObservedTiming(const Graph& graph) { return {graph.lead, graph.work, graph.beside}; }

// A moment on the critical path. Where several predecessors bind at once the path forks and its weight with it, in equal
// parts; the weights of a cut through the path add up to 1.
struct PathNode {
  NodeRef node;
  double weight;
};

// One replay. Reusable: Run() overwrites the result of the run before.
class Replay {
 public:
  // `graph` must outlive it. `first_end`: when the step before the first used one ended, fixed in every replay.
  // Without `followers`, which must outlive it too, Rerun() is Run().
  Replay(const Graph& graph, size_t steps, double first_end, const Followers* followers = nullptr);

  void Run(const Timing& timing);
  // The same, given that `timing` differs from that of the Rerun() before at most in these units, which may be named twice.
  void Rerun(const Timing& timing, std::span<const uint32_t> candidates);

  double At(NodeRef node) const { return time_[node]; }
  const std::vector<double>& moments() const { return time_; }  // by NodeRef
  // The job's step k lasts from the last end of device work of step k - 1 on any rank to that of step k.
  std::vector<double> StepDurations() const;
  // From the end of the step before the first used one to that of the last.
  double TotalTime() const { return step_end_.empty() ? 0 : step_end_.back() - first_end_; }
  // Mean over the steps.
  double StepTime() const { return step_end_.empty() ? 0 : TotalTime() / static_cast<double>(step_end_.size()); }

  // What decided when the last step ended, from the end back to the begin of the first used step: a unit's end where its work
  // was on the path, its start where its lead was. Symmetric ranks that bind at the same moment share it.
  std::vector<PathNode> CriticalPath();

 private:
  // The predecessors that bind `node`, in ties_; none for what nothing comes before.
  void FindBindings(NodeRef node);
  void Spread(NodeRef node, double weight);
  double Take(NodeRef node, std::vector<PathNode>& path);
  void Visit(uint32_t item, std::vector<PathNode>& path);
  void PlaceInProgram();

  // ---- the sweep: items of the program from `place` on
  void Sweep(const Timing& timing, size_t place);
  void EndSteps();
  void MarkChanged(const Timing& timing, std::span<const uint32_t> candidates);
  void RunMarked(const Timing& timing);
  void Recompute(const Timing& timing, uint32_t item);
  double Ready(uint32_t unit) const;
  void MoveStart(uint32_t unit, double to);
  void MoveEnd(uint32_t unit, double to);
  void MarkFollowers(NodeRef node);
  void FindStepEnds();

  // What a run reads of a unit, in one place.
  struct Entry {
    uint32_t first_pred;  // into Graph::start_preds; its last is the next unit's first
    int32_t counts;       // the used step whose end its end may be, or -1
  };
  static constexpr uint32_t kHeadFlag = 1u << 31;  // of first_pred: nothing is known before it

  const Graph& graph_;
  std::vector<Entry> entries_;  // by unit, and one past the last
  std::vector<double> time_;
  std::vector<double> step_end_;
  double first_end_;
  const Followers* followers_;
  std::vector<double> last_of_step_;   // end of the last device work of each step
  // For Rerun(): what its run before was given, and what is to be computed anew.
  Timing known_;
  bool is_known_ = false;
  std::vector<uint64_t> marked_;       // one bit per place of the program
  std::vector<uint8_t> stale_steps_;   // what ended them moved forwards
  std::vector<NodeRef> ties_;
  std::vector<uint32_t> last_step_units_;  // device work of the last step
  // Built at the first fork: where in the program a unit starts and ends, and what the path weighs there.
  std::vector<uint32_t> start_place_, end_place_;
  std::vector<double> weight_;
  size_t pending_ = 0;  // moments with a weight that were not visited yet
};

// End of the device work before the first used step; where there is none, the earliest begin of that step on any rank.
double FirstEnd(const Graph& graph, const GraphInput& input);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_REPLAY_H_
