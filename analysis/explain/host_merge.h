// Finds hosts of which nearly all ranks are slow in the same way, when ranks of other hosts are not. The host
// is then the culprit. docs/causes.md. Pure, any thread.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_HOST_MERGE_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_HOST_MERGE_H_

#include <span>
#include <vector>

#include "analysis/compare/excess.h"
#include "analysis/explain/causes.h"
#include "analysis/explain/explanation.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// The known facts about the ranks. All of them must outlive the call.
struct HostMergeInput {
  const GraphInput& input;
  const Excess& excess;
  const CauseRules& rules;
  std::span<const Pieces> pauses;  // by rank index; for WorkKind::kHost
};

// Replaces the entries of `found` that nearly all ranks of a host have by one entry of the host, at the end
// of the list. `kind`: the kind of work that the entries concern.
void MergeRanksOfHosts(const HostMergeInput& known, WorkKind kind, std::vector<Explanation>& found);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_HOST_MERGE_H_
