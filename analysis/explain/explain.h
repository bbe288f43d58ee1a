// Everything that could hold the job back, before it is known what each costs: who, why, and which pieces of
// which units are its doing.
//
// Looked for in the order of docs/causes.md: what all ranks share, what the data does, stages, hosts, ranks,
// links. What is found first is not blamed on somebody else again. Whether it is worth a line is decided by
// who measures it (diagnosis.cc).
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_EXPLAIN_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_EXPLAIN_H_

#include <cstdint>
#include <vector>

#include "aggregator/analysis/links.h"
#include "analysis/explain/explanation.h"
#include "analysis/gains/gains.h"
#include "analysis/prepare/stages.h"

namespace lockstep::analysis {

struct Explanations {
  std::vector<Explanation> list;
  double kernel_floor_ns = 0;  // of one rank's kernels, per step
  LinkFindings links;
  // What was looked at, for what is not the cause.
  double slowest_kernels = 1;  // largest ratio of a rank's kernels to its peers'
  uint32_t slowest_rank = store::kNone;
  double stage_spread = 0;  // slowest stage's own work over the stages' mean, less 1; 0 without stages
  double sequence_spread = 0;
};

// With at least kLeastSteps steps, and after Gains::Measure().
Explanations Explain(const GraphInput& input, const Gains& gains, const Layout& layout);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_EXPLAIN_H_
