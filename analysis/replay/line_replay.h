// Replays of points on the straight line between two timings, several at once: what a run reads of the
// program serves all of them.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_LINE_REPLAY_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_LINE_REPLAY_H_

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "analysis/replay/critical_path.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/schedule.h"

namespace lockstep::analysis {

// One thread. Each point is what Replay::Run() gives for its timing, but for rounding.
class LineReplay {
 public:
  static constexpr size_t kPoints = 4;  // of one run

  // `program` must outlive it, `from` and `to` need not.
  LineReplay(const Program& program, const Timing& from, const Timing& to);

  // Replays from + at * (to - from) for up to kPoints values of `at`; the results before are gone.
  void Run(std::span<const double> at);
  // Of the point with this index in the last run: when the last step ended, and how long that is after the
  // begin of the first.
  double End(size_t point) const { return end_[point]; }
  double TotalTime(size_t point) const { return end_[point] - program_.first_end(); }
  Moments MomentsOf(size_t point) const { return {.base = times_.data()->data() + point, .stride = kPoints}; }

 private:
  using Points = std::array<double, kPoints>;

  const Program& program_;
  std::vector<double> from_,
      growth_;  // by slot: what is added to what the moment waits for, and how that grows along the line
  std::vector<Points> times_;  // by slot
  Points end_{};
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_LINE_REPLAY_H_
