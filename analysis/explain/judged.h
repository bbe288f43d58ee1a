// Finds the limits of a capture. A rank or link is judged by comparing it with others that do the same.
// Without such others, a fault that is always there does not stand out.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_JUDGED_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_JUDGED_H_

#include <string>
#include <vector>

#include "analysis/compare/classes.h"
#include "analysis/compare/excess.h"
#include "analysis/compare/imbalance.h"
#include "analysis/explain/links.h"
#include "analysis/prepare/stages.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// The way to judge what nothing in the capture can be compared with.
inline constexpr char kCompareWithFast[] =
    "compare it with a capture of a time when the job was fast (lockstep diff)";

// All texts are for the person on call.
struct NotJudged {
  std::string what;             // "GPU speed", "links between hosts", …
  std::string why;              // a sentence without a full stop
  std::string what_would_tell;  // likewise
};

// Returns what was not judged of GPUs, hosts, copies, links, stages and experts. At least half of the time of
// each must be comparable, on every rank. Requires at least kLeastSteps steps. Pure.
std::vector<NotJudged> FindNotJudged(const GraphInput& input, const Graph& graph, const Classes& classes,
                                     const Excess& excess, const Layout& layout, const LinkFindings& links,
                                     const KernelKinds& kinds);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_JUDGED_H_
