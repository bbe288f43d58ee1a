// Remedies for each cause, as texts for the person on call. Each remedy begins with a verb.
#ifndef LOCKSTEP_REPORT_ACTIONS_H_
#define LOCKSTEP_REPORT_ACTIONS_H_

#include <string>
#include <vector>

#include "analysis/explain/cause_names.h"
#include "analysis/explain/shared_losses.h"

namespace lockstep::report {

// Names the culprit of a finding: "GPU 3 of node7", "node7", "stage 2", …
struct ActionTarget {
  std::string gpu;     // GPU and host of the first rank; empty: the finding has no rank
  std::string gpu_id;  // for nvidia-smi -i: the GPU's UUID, or its number
  std::string host;
  std::string ranks;         // "rank 3", "5 ranks (3, 4, 0, ...)"
  std::string since;         // " at step 640"; empty: not known
  bool leaves_host = false;  // only transfers that leave the host are slow
};

// Returns the remedy. Empty: there is no remedy until more is known.
std::string ActionFor(analysis::Cause cause, analysis::CulpritKind kind, const ActionTarget& target);
// Returns the remedy in a few words, for a list of fixes: "replace GPU 3 of node7".
std::string FixVerb(analysis::Cause cause, analysis::CulpritKind kind, const ActionTarget& target);
// Returns the remedy of a loss that all ranks share.
std::string SharedLossAction(analysis::SharedLossKind kind);
// Returns the cause as text for a reader: "slow GPU".
std::string CauseInWords(const std::string& cause);

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_ACTIONS_H_
