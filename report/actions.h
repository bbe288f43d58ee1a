// What a person on call does about each cause: one verb.
#ifndef LOCKSTEP_AGGREGATOR_REPORT_ACTIONS_H_
#define LOCKSTEP_AGGREGATOR_REPORT_ACTIONS_H_

#include <string>
#include <vector>

#include "analysis/explain/cause_names.h"

namespace lockstep::report {

// Whom it lies with, as a person finds it: "GPU 3 of node7", "node7", "stage 2", …
struct ActionTarget {
  std::string gpu;  // the first rank's GPU and host; empty where there is no rank
  std::string host;
  std::string ranks;  // "rank 3", "ranks 3, 4 and 2 more"
};

// Empty: nothing is to be done before more is known.
std::string ActionFor(analysis::Cause cause, analysis::CulpritKind kind, const ActionTarget& target);
// The same in a few words, for a list of fixes: "replace GPU 3 of node7".
std::string FixVerb(analysis::Cause cause, analysis::CulpritKind kind, const ActionTarget& target);
// Cause in a reader's words: "GPU clock".
std::string CauseInWords(const std::string& cause);

}  // namespace lockstep::report

#endif  // LOCKSTEP_AGGREGATOR_REPORT_ACTIONS_H_
