// Chooses the ranks of the timeline.
#ifndef LOCKSTEP_WEB_PAGE_TIMELINE_RANKS_H_
#define LOCKSTEP_WEB_PAGE_TIMELINE_RANKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "capture/model/capture.h"
#include "report/report.h"

namespace lockstep::web {

struct ChosenRank {
  uint32_t index;    // index in Capture::ranks
  std::string part;  // TimelineRank::part
};

// Returns up to three ranks, with the culprit first. Returns none for a capture without ranks. `analysis`
// must be that of the capture.
std::vector<ChosenRank> ChooseRanks(const capture::Capture& capture, const report::Analysis& analysis);

}  // namespace lockstep::web

#endif  // LOCKSTEP_WEB_PAGE_TIMELINE_RANKS_H_
