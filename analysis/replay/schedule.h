// The replay graph with what replays of one job need: the nodes that follow a unit, and the units that may
// end a step.
//
// Read-only after construction, so any thread may use it.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_SCHEDULE_H_
#define LOCKSTEP_ANALYSIS_REPLAY_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/replay/graph.h"

namespace lockstep::analysis {

class Schedule {
 public:
  // `graph` must outlive it. `first_end`: end of the step before the first used one, which is fixed in every
  // replay.
  Schedule(const Graph& graph, size_t steps, double first_end);

  const Graph& graph() const { return graph_; }
  size_t steps() const { return steps_; }
  double first_end() const { return first_end_; }

  uint32_t nodes() const { return static_cast<uint32_t>(graph_.order.size()); }
  // Places of the nodes that wait for the start or the end of this unit, besides the one that its own end is
  // anchored at.
  std::span<const uint32_t> Followers(uint32_t unit) const {
    return {followers_.data() + first_follower_[unit], first_follower_[unit + 1] - first_follower_[unit]};
  }
  // Units whose end may be the end of that step.
  std::span<const uint32_t> EndsOf(size_t step) const {
    return {ends_.data() + first_of_step_[step], first_of_step_[step + 1] - first_of_step_[step]};
  }

  // Moves the large tables to the disk.
  void MoveTo(capture::DiskRows& disk) const {
    disk.Take(first_follower_);
    disk.Take(followers_);
    disk.Take(ends_);
  }

 private:
  void FindFollowers();
  void SortEnds();

  const Graph& graph_;
  size_t steps_;
  double first_end_;
  std::vector<uint64_t> first_follower_;
  std::vector<uint32_t> followers_;
  std::vector<uint32_t> first_of_step_, ends_;
};

// End of the device work before the first used step. Without such work, the earliest begin of that step on
// any rank.
double FirstEnd(const Graph& graph, const GraphInput& input);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_SCHEDULE_H_
