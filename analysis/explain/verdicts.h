// Confidence and first step of a finding, the ranks that it delays, and the list of what is not the cause.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_VERDICTS_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_VERDICTS_H_

#include <string>
#include <vector>

#include "analysis/explain/diagnosis.h"
#include "analysis/explain/explain.h"
#include "analysis/gains/gains.h"

namespace lockstep::analysis {

// Fills gain_ns, gain_interval, confidence and verdict from the gains per step. `floor`: noise floor per
// step. `rule_share`: share of the cost that the cause's rule explains. `matched`: share of matched
// communication. Uses `is_affected`, so DateFinding() comes first.
void Judge(Finding& finding, double floor, double rule_share, size_t steps, double matched);

// Finds the steps in which the finding's pieces cost time, and its own work before them and in them.
void DateFinding(Finding& finding, const GraphInput& input, const Graph& graph);

// Counts the ranks that waited directly for the named ranks, and adds a line of evidence.
void CountDelayed(Finding& finding, const GraphInput& input, double step_ns);

// Lists what was examined and is normal, with figures.
std::vector<std::string> NotTheCause(const GraphInput& input, const Gains& gains, const Explanations& seen,
                                     const std::vector<Finding>& findings, double floor);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_VERDICTS_H_
