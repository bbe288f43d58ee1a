// The activities of three ranks in one or two steps, reduced to the resolution of a screen: the culprit, a
// rank that waited for it, and a typical rank.
#ifndef LOCKSTEP_WEB_PAGE_TIMELINE_H_
#define LOCKSTEP_WEB_PAGE_TIMELINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/prepare/steps.h"
#include "capture/model/capture.h"
#include "report/report.h"

namespace lockstep::web {

// Boxes sorted by start. Each member is a vector, as the page draws them. Times are in nanoseconds from the
// window's start.
struct Lane {
  std::string name;
  std::vector<float> start, length;
  std::vector<float> wait;     // time of waiting at the start of the box; NaN means unknown
  std::vector<float> name_at;  // index in Timeline::names
  std::vector<float> count;    // number of records in the box
  uint64_t merged = 0;         // number of records without a box of their own
};

struct TimelineRank {
  RankId rank;
  std::string part;  // "culprit", "victim" or "peer"; in a healthy job "waited for most"
  std::vector<Lane> lanes;
  // For each bin of the whole capture, the fraction of time in which a kernel ran.
  JobTime busy_start;
  Nanos busy_width;
  std::vector<float> busy;
  // For the same bins, the mean number of activities whose launch has begun and that have not started. Empty:
  // no launch is known.
  std::vector<float> queued;
};

struct Timeline {
  JobInterval window;
  std::vector<analysis::StepSpan> steps;  // steps inside the window
  std::vector<TimelineRank> ranks;        // empty if nothing was recorded
  std::vector<std::string> names;
};

// Makes the timeline around the step in which the culprit cost most. A pure function.
Timeline MakeTimeline(const capture::Capture& capture, const report::Analysis& analysis);

}  // namespace lockstep::web

#endif  // LOCKSTEP_WEB_PAGE_TIMELINE_H_
