// Ranks of one host that are slow alike, when those of other hosts are not: it is the host. docs/causes.md.
// Pure, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_HOST_MERGE_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_HOST_MERGE_H_

#include <span>
#include <vector>

#include "analysis/compare/excess.h"
#include "analysis/explain/causes.h"
#include "analysis/explain/explanation.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// What is known of the ranks. All of it must outlive the call.
struct HostMergeInput {
  const GraphInput& input;
  const Excess& excess;
  const CauseRules& rules;
  std::span<const Pieces> pauses;  // by rank index; for WorkKind::kHost
};

// In place of the entries of `found` that nearly all ranks of a host have, one of that host; it stands last.
// `kind`: of work that the entries are about.
void MergeRanksOfHosts(const HostMergeInput& known, WorkKind kind, std::vector<Explanation>& found);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_HOST_MERGE_H_
