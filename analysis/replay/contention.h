// Kernels that are slower while a collective is on their device: it takes multiprocessors and memory
// bandwidth, also while it only waits. When its waiting goes, they run at full speed, which a replay with
// fixed durations misses.
//
// A kernel that takes `work` alone takes work + share * (time it spends beside collectives). The share is
// measured: by regression of a rank's kernels of one name and shape on that time, the median over ranks.
// Messages occupy too little to matter. Pure; any thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_CONTENTION_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_CONTENTION_H_

#include <cstdint>
#include <vector>

#include "analysis/replay/graph.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/schedule.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// Takes what collectives beside them add off the kernels' work, into Graph::beside. Called once, when works
// are known.
void SeparateContention(const store::Capture& capture, Graph& graph);

// Where kernels and collectives are in replays decides anew what collectives add. One thread.
class ContentionPlacer {
 public:
  // `program` must outlive it.
  explicit ContentionPlacer(const Program& program);

  // Puts into `timing` what collectives add when all starts and ends are those of `replay`, and appends the
  // units whose value changed.
  void Place(const Replay& replay, Timing& timing, std::vector<uint32_t>& changed);

 private:
  struct Read {
    uint32_t slot, to;
  };
  struct RankPart {
    uint32_t spans, kernels;
  };

  const Graph& graph_;
  std::vector<RankPart> ranks_;    // how many there are of each; only ranks that have both
  std::vector<uint32_t> kernels_;  // units, rank after rank
  // Moments are read in the order of the program, which is fast: of each rank begins and ends of collectives,
  // then starts of kernels.
  std::vector<Read> reads_;
  std::vector<double> moments_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_CONTENTION_H_
