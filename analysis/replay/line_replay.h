// Replays several points on the straight line between two timings at once, so that one pass over the schedule
// serves all of them.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_LINE_REPLAY_H_
#define LOCKSTEP_ANALYSIS_REPLAY_LINE_REPLAY_H_

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "analysis/replay/critical_path.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/schedule.h"

namespace lockstep::analysis {

// For one thread. Each point is what Replay::Run() gives for its timing, except for rounding.
class LineReplay {
 public:
  static constexpr size_t kPoints = 4;  // points per run

  // `schedule` must outlive it, `from` and `to` need not.
  LineReplay(const Schedule& schedule, const Timing& from, const Timing& to);

  // Replays from + at * (to - from) for up to kPoints values of `at`. Overwrites the previous results.
  void Run(std::span<const double> at);
  // For the point with this index in the last run: the end of the last step, and the time to it from the
  // begin of the first step.
  double End(size_t point) const { return end_[point]; }
  double TotalTime(size_t point) const { return end_[point] - schedule_.first_end(); }
  Moments MomentsOf(size_t point) const { return {.base = times_.data()->data() + point, .stride = kPoints}; }

 private:
  using Points = std::array<double, kPoints>;

  const Schedule& schedule_;
  std::vector<double> from_,
      growth_;                 // by slot: duration after the predecessors, and its growth along the line
  std::vector<Points> times_;  // by slot
  Points end_{};
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_LINE_REPLAY_H_
