// What slow links are in words and pieces.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_LINK_CAUSES_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_LINK_CAUSES_H_

#include <vector>

#include "aggregator/analysis/links.h"
#include "analysis/explain/explanation.h"

namespace lockstep::analysis {

std::vector<Explanation> ExplainLinks(const GraphInput& input, const Classes& classes,
                                      const LinkFindings& links);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_LINK_CAUSES_H_
