// How sure a finding is, since when, whom it delays; and what is not the cause.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_VERDICTS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_VERDICTS_H_

#include <string>
#include <vector>

#include "analysis/explain/diagnosis.h"
#include "analysis/explain/explain.h"
#include "analysis/gains/gains.h"

namespace lockstep::analysis {

// Fills gain_ns, gain_interval, confidence and verdict from the gains per step. `floor`: per step.
// `rule_share`: of what it costs, what the cause's rule explains.
void Judge(Finding& finding, double floor, double rule_share, size_t steps, double matched);

// Steps in which the finding's pieces cost, and what its own work was before and from then on.
void DateFinding(Finding& finding, const GraphInput& input, const Graph& graph);

// Ranks that waited directly for those named, with a line of evidence.
void CountDelayed(Finding& finding, const GraphInput& input, double step_ns);

// What was looked at and is fine, with numbers.
std::vector<std::string> NotTheCause(const GraphInput& input, const Gains& gains, const Explanations& seen,
                                     const std::vector<Finding>& findings, double floor);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_VERDICTS_H_
