// Limits predicted gains to the pace of the hosts.
//
// Hosts run ahead of their devices. A device that becomes faster first uses up that lead, and from then on
// waits for its host. A short window shows only the lead: its replay with a fix ends before the host's own
// pace counts.
#ifndef LOCKSTEP_ANALYSIS_GAINS_HOST_PACE_H_
#define LOCKSTEP_ANALYSIS_GAINS_HOST_PACE_H_

#include <cstdint>
#include <vector>

#include "analysis/replay/graph.h"
#include "analysis/replay/replay.h"

namespace lockstep::analysis {

// Read-only after construction; any thread. The graph must outlive it.
class HostPace {
 public:
  HostPace() = default;
  // `observed` is the replay without a change.
  HostPace(const Graph& graph, const Replay& observed);

  // Reduces `gain`, the time by which each step is shorter in `replay` than observed, to what the hosts can
  // keep up in that replay. All steps keep their share of the sum.
  void Limit(const Replay& replay, std::vector<double>& gain) const;

 private:
  struct RankCalls {
    uint32_t first, last;         // host calls at the begin of the first and of the last used step
    std::vector<uint32_t> waits;  // calls between them that wait for the device
    double beyond;                // by how much the host's own time exceeds the observed steps
  };

  // The host's time from `first` to `last` without its waits for the device.
  double OwnTime(const RankCalls& rank, const Replay& replay) const;

  const Graph* graph_ = nullptr;
  double observed_ns_ = 0;  // all used steps but the last one
  std::vector<RankCalls> ranks_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_GAINS_HOST_PACE_H_
