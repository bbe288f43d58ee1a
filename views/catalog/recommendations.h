// What to do, each with the number behind it: the report's own, and torch-tb-profiler's rules that it does
// not have.
#ifndef LOCKSTEP_AGGREGATOR_TABLES_RECOMMENDATIONS_H_
#define LOCKSTEP_AGGREGATOR_TABLES_RECOMMENDATIONS_H_

#include <string>
#include <vector>

#include "capture/model/capture.h"
#include "report/model.h"
#include "views/device/overview.h"

namespace lockstep::tables {

// `report` and `ranks` are of that capture. What needs frames is left out where it has none. Pure.
std::vector<std::string> RecommendationsOf(const store::Capture& capture, const report::Report& report,
                                           const std::vector<views::RankOverview>& ranks);

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_RECOMMENDATIONS_H_
