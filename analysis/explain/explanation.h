// One possible cause of delay: culprit, cause, and the pieces of units that belong to it.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_EXPLANATION_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_EXPLANATION_H_

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
      rank_indices;        // the worst first if they differ; all candidates if no figure distinguishes them
  bool identified = true;  // false: it is one of them, and no figure shows which
  Pieces pieces;
  double excess_ns = 0;   // per step: its time beyond its peers, on or off the critical path
  double floor_ns = 0;    // per step: its limit by chance, from peers that are alike
  double rule_share = 1;  // share of the excess that the cause's rule explains
  std::vector<std::string> evidence;
  std::optional<Nanos> late;  // its lateness in each step, if that is its cost
  bool leaves_host = false;   // only transfers that leave the host are slow
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_EXPLANATION_H_
