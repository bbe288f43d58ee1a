// The actions that a report recommends: `DO` and `TUNE` of the text, recommendations[] of report.json.
#ifndef LOCKSTEP_REPORT_RECOMMENDATIONS_H_
#define LOCKSTEP_REPORT_RECOMMENDATIONS_H_

#include <string>
#include <vector>

#include "report/model.h"

namespace lockstep::report {

struct Recommendation {
  std::string text;
  bool can_wait;  // its loss neither leads nor is paged for
};

// Returns what to capture, if more must be captured first, then the actions for what cannot wait, for the
// leading loss, and for other losses by gain. Report::recommendations itself is not read.
std::vector<Recommendation> MakeRecommendations(const Report& report);

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_RECOMMENDATIONS_H_
