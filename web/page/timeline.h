// What three ranks did in a step or two, reduced to what a screen can show: the culprit, one that waited for
// it, and one like any other.
#ifndef LOCKSTEP_AGGREGATOR_HTML_TIMELINE_H_
#define LOCKSTEP_AGGREGATOR_HTML_TIMELINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/prepare/steps.h"
#include "capture/model/capture.h"
#include "report/report.h"

namespace lockstep::html {

// Boxes in the order of their starts; one vector for each member, as they are drawn. Nanoseconds from the
// window's start on.
struct Lane {
  std::string name;
  std::vector<float> start, length;
  std::vector<float> wait;     // how much of it, from its start, was waiting; NaN where that is unknown
  std::vector<float> name_at;  // into Timeline::names
  std::vector<float> count;    // records that one box stands for
  uint64_t merged = 0;         // records that have no box of their own
};

struct TimelineRank {
  RankId rank;
  std::string part;  // "culprit", "victim" or "peer"; of a healthy job "waited for most"
  std::vector<Lane> lanes;
  // Part of each bin in which a kernel ran, over all of the capture.
  JobTime busy_start;
  Nanos busy_width;
  std::vector<float> busy;
};

struct Timeline {
  JobInterval window;
  std::vector<analysis::StepSpan> steps;  // that lie in it
  std::vector<TimelineRank> ranks;        // empty where nothing was recorded
  std::vector<std::string> names;
};

// Around the step in which the culprit cost most. Pure.
Timeline MakeTimeline(const store::Capture& capture, const report::Analysis& analysis);

}  // namespace lockstep::html

#endif  // LOCKSTEP_AGGREGATOR_HTML_TIMELINE_H_
