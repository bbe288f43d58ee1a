// Transfers of groups that cannot be compared with others, such as a group of all ranks. Their only reference
// is their own past.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_LONE_LINKS_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_LONE_LINKS_H_

#include <vector>

#include "analysis/explain/links.h"

namespace lockstep::analysis {

// Finds, for each such group, the steps in which its transfers take longer than in its fast ones. The kind is
// congestion if these steps come and go, and the group's path if they are one run. Transfers that are always
// slow cannot be found. Groups are left out if a host's clock was stepped in the window.
std::vector<SlowLink> FindSlowLoneGroups(const GraphInput& input, const Graph& graph, const Classes& classes,
                                         const Excess& excess);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_LONE_LINKS_H_
