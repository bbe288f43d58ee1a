// RecommendationsOf(): recommends actions, each with its figure. It joins the report's recommendations and
// those rules of torch-tb-profiler that the report lacks.
#ifndef LOCKSTEP_VIEWS_CATALOG_RECOMMENDATIONS_H_
#define LOCKSTEP_VIEWS_CATALOG_RECOMMENDATIONS_H_

#include <string>
#include <vector>

#include "capture/model/capture.h"
#include "report/model.h"
#include "views/device/overview.h"

namespace lockstep::views {

// `report` and `ranks` are of `capture`. Rules that need frames are left out if it has none. Pure.
std::vector<std::string> RecommendationsOf(const capture::Capture& capture, const report::Report& report,
                                           const std::vector<views::RankOverview>& ranks);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_CATALOG_RECOMMENDATIONS_H_
