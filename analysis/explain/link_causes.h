// Turns slow links into explanations with evidence and pieces.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_LINK_CAUSES_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_LINK_CAUSES_H_

#include <vector>

#include "analysis/explain/explanation.h"
#include "analysis/explain/links.h"

namespace lockstep::analysis {

std::vector<Explanation> ExplainLinks(const GraphInput& input, const Classes& classes,
                                      const LinkFindings& links);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_LINK_CAUSES_H_
