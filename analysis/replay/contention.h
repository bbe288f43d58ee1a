// Slowdown of kernels while a collective runs on their device. A collective takes multiprocessors and memory
// bandwidth, even while it only waits. Without its waiting, kernels run at full speed. A replay with fixed
// durations misses this.
//
// A kernel that takes `work` alone takes work + share * (its time beside collectives). The share is measured
// by regression on that time, over a rank's kernels of one name and shape. The median over ranks is used.
// Messages occupy too little to matter. Pure; any thread.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_CONTENTION_H_
#define LOCKSTEP_ANALYSIS_REPLAY_CONTENTION_H_

#include <cstdint>
#include <vector>

#include "analysis/replay/graph.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/schedule.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// Moves the time that collectives add to kernels from the kernels' work to Graph::beside. Call once, when all
// works are known.
void SeparateContention(const capture::Capture& capture, Graph& graph);

// Computes the time that collectives add to kernels for the positions of both in a replay. One thread.
class ContentionPlacer {
 public:
  // `schedule` must outlive it.
  explicit ContentionPlacer(const Schedule& schedule);

  // Stores in `timing` the time that collectives add when all starts and ends are those of `replay`. Appends
  // the units whose value changed to `changed`.
  void Place(const Replay& replay, Timing& timing, std::vector<uint32_t>& changed);

 private:
  struct RankPart {
    uint32_t spans, kernels;
  };

  const Graph& graph_;
  std::vector<RankPart> ranks_;    // numbers of spans and kernels; only ranks that have both
  std::vector<uint32_t> kernels_;  // units, rank after rank
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_CONTENTION_H_
