// Transfers of groups that nothing can be compared with, such as one of all ranks: their only yardstick is
// their own past.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_LONE_LINKS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_LONE_LINKS_H_

#include <vector>

#include "aggregator/analysis/links.h"

namespace lockstep::analysis {

// Of each such group the steps in which its transfers take longer than in its fast ones, as congestion where
// they come and go, as the group's path where they are one run. What is slow throughout nobody can see.
// Groups on hosts whose clock was set are left out.
std::vector<SlowLink> FindSlowLoneGroups(const GraphInput& input, const Graph& graph, const Classes& classes,
                                         const Excess& excess);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_LONE_LINKS_H_
