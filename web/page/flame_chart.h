// The stacks of calls of a capture, reduced for the page: one tree per kind of time, with the mean over the
// ranks and the times of some ranks.
#ifndef LOCKSTEP_WEB_PAGE_FLAME_CHART_H_
#define LOCKSTEP_WEB_PAGE_FLAME_CHART_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"
#include "views/host/flame.h"

namespace lockstep::web {

// The vectors have one element per frame of the tree. A frame comes before the frames inside it. Times are
// nanoseconds, and those of the frames inside are included.
struct FlameChart {
  views::FlameKind kind = views::FlameKind::kDevice;
  std::vector<std::string> names;  // each once
  std::vector<float> name_at;      // place in `names`
  std::vector<float> parent;       // place of the frame around it; -1: an outermost frame
  std::vector<float> mean_ns;      // over all ranks with stacks of this kind
  struct Rank {
    RankId rank;
    std::vector<float> time_ns;
  };
  std::vector<Rank> ranks;
  uint64_t counted_ranks = 0;  // the mean is over them
  uint64_t left_out = 0;       // frames that are too short to be seen
};

// Returns a chart for each kind of which the capture has stacks with at least two frames. `ranks` get their
// own times. Python's stacks are a chart only if they differ from those of the host. A pure function.
std::vector<FlameChart> MakeFlameCharts(const capture::Capture& capture, std::span<const RankId> ranks);

}  // namespace lockstep::web

#endif  // LOCKSTEP_WEB_PAGE_FLAME_CHART_H_
