// Everything that could hold the job back, before it is known what each costs: who, why, and which pieces of which units are its doing.
//
// Looked for in the order of docs/causes.md: what all ranks share, what the data does, stages, hosts, ranks, links. What is
// found first is not blamed on somebody else again. Whether it is worth a line is decided by who measures it (diagnosis.cc).
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_EXPLAIN_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_EXPLAIN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/analysis/cause_names.h"
#include "aggregator/analysis/excess.h"
#include "aggregator/analysis/gains.h"
#include "aggregator/analysis/kernel_kind.h"
#include "aggregator/analysis/links.h"
#include "aggregator/analysis/pieces.h"
#include "aggregator/analysis/stages.h"

namespace lockstep::analysis {

struct Explanation {
  CulpritKind kind = CulpritKind::kRank;
  Cause cause = Cause::kUnknown;
  std::vector<uint32_t> rank_indices;  // the worst first where they differ; of those that nothing tells apart, all
  bool told_apart = true;              // else it is one of them, and nobody can say which
  Pieces pieces;
  double excess_ns = 0;  // per step: what it takes beyond its peers, on or off the critical path
  double floor_ns = 0;   // per step: what chance makes of peers that are alike
  double rule_share = 1;  // of it, what the cause's rule explains
  std::vector<std::string> evidence;
  std::optional<Nanos> late;  // how late it comes into each step, where that is what it costs
};

struct Explanations {
  std::vector<Explanation> list;
  double kernel_floor_ns = 0;  // of one rank's kernels, per step
  LinkFindings links;
  // What was looked at, for what is not the cause.
  double slowest_kernels = 1;   // largest ratio of a rank's kernels to its peers'
  uint32_t slowest_rank = store::kNone;
  double stage_spread = 0;      // slowest stage's own work over the stages' mean, less 1; 0 without stages
  double sequence_spread = 0;
};

// With at least kLeastSteps steps, and after Gains::Measure().
Explanations Explain(const GraphInput& input, const Gains& gains, const Layout& layout);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_EXPLAIN_H_
