// One thing that could hold the job back: who, why, and which pieces of which units are its doing.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_EXPLANATION_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_EXPLANATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/compare/pieces.h"
#include "analysis/explain/cause_names.h"
#include "base/time.h"

namespace lockstep::analysis {

struct Explanation {
  CulpritKind kind = CulpritKind::kRank;
  Cause cause = Cause::kUnknown;
  std::vector<uint32_t>
      rank_indices;        // the worst first where they differ; of those that nothing tells apart, all
  bool told_apart = true;  // else it is one of them, and nobody can say which
  Pieces pieces;
  double excess_ns = 0;   // per step: what it takes beyond its peers, on or off the critical path
  double floor_ns = 0;    // per step: what chance makes of peers that are alike
  double rule_share = 1;  // of it, what the cause's rule explains
  std::vector<std::string> evidence;
  std::optional<Nanos> late;  // how late it comes into each step, where that is what it costs
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_EXPLANATION_H_
