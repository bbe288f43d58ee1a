// Finds everything that may delay the job, before its cost is known: culprits, causes, and the pieces of
// units that belong to them.
//
// The order of the search is that of docs/causes.md: effects on all ranks, uneven data, stages, hosts, ranks,
// links. A later search does not attribute the same excess again. diagnosis.cc measures the costs and decides
// which findings are listed.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_EXPLAIN_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_EXPLAIN_H_

#include <cstdint>
#include <vector>

#include "analysis/explain/explanation.h"
#include "analysis/explain/judged.h"
#include "analysis/explain/links.h"
#include "analysis/gains/gains.h"
#include "analysis/prepare/stages.h"

namespace lockstep::analysis {

struct Explanations {
  std::vector<Explanation> list;
  // Slow hosts of single ranks for which nobody waits, because others are later. They cost time once those
  // are fixed. The slowest first.
  std::vector<Explanation> hidden;
  double kernel_floor_ns = 0;  // of one rank's kernels, per step
  LinkFindings links;
  std::vector<NotJudged> not_judged;
  // Figures for the list of what is not the cause.
  double slowest_kernels = 1;  // largest ratio of a rank's kernels to its peers'
  uint32_t slowest_rank = capture::kNone;
  double stage_spread = 0;  // the slowest stage's own work over the stages' mean, minus 1; 0 without stages
  double sequence_spread = 0;
};

// Requires at least kLeastSteps steps, and `gains` after Gains::Measure().
Explanations Explain(const GraphInput& input, const Gains& gains, const Layout& layout);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_EXPLAIN_H_
