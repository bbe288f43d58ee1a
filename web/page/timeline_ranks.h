// Whose time the timeline shows.
#ifndef LOCKSTEP_AGGREGATOR_HTML_TIMELINE_RANKS_H_
#define LOCKSTEP_AGGREGATOR_HTML_TIMELINE_RANKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "capture/model/capture.h"
#include "report/report.h"

namespace lockstep::html {

struct ChosenRank {
  uint32_t index;    // into Capture::ranks
  std::string part;  // TimelineRank::part
};

// The culprit first; fewer than three where there are no more, none in a capture without ranks. `analysis` is
// of that capture.
std::vector<ChosenRank> ChooseRanks(const store::Capture& capture, const report::Analysis& analysis);

}  // namespace lockstep::html

#endif  // LOCKSTEP_AGGREGATOR_HTML_TIMELINE_RANKS_H_
