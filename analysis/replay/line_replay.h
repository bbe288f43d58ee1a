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
  static constexpr size_t kPoints = 2;  // points per run; more need less time and more memory

  // All must outlive it.
  LineReplay(const Schedule& schedule, const Durations& from, const Durations& to);

  // Replays from + at * (to - from) for up to kPoints values of `at`. Overwrites the previous results.
  void Run(std::span<const double> at);
  // For the point with this index in the last run: the end of the last step, and the time to it from the
  // begin of the first step.
  double End(size_t point) const { return end_[point]; }
  double TotalTime(size_t point) const { return end_[point] - schedule_.first_end(); }
  double TimeAt(size_t point, uint32_t node) const { return times_[node][point]; }
  Moments MomentsOf(size_t point) const {
    return {schedule_.graph(), {from_, to_, at_[point]}, times_.data()->data() + point, kPoints};
  }

 private:
  using Points = std::array<double, kPoints>;

  Points ReadyAt(std::span<const NodeRef> preds) const;
  // time + duration + at * growth, for each point.
  Points After(const Points& time, double duration, double growth) const;
  Points EndAfter(const Points& anchor, uint32_t unit) const;
  Points MomentAt(NodeRef moment) const;

  const Schedule& schedule_;
  Durations from_, to_;
  Points at_{};
  std::vector<Points> times_;  // by node
  std::array<double, kPoints> end_{};
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_LINE_REPLAY_H_
