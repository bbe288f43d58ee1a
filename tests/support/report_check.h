// For tests: checks a report as JSON against the published schema.
#ifndef LOCKSTEP_TESTS_SUPPORT_REPORT_CHECK_H_
#define LOCKSTEP_TESTS_SUPPORT_REPORT_CHECK_H_

#include <algorithm>
#include <cmath>
#include <string>

#include "gtest/gtest.h"
#include "report/report.h"
#include "tests/support/schema_check.h"

namespace lockstep::tests {

inline std::string CheckedJson(const report::Report& made) {
  StringSink sink;
  EXPECT_TRUE(report::WriteJson(made, sink).ok());
  CheckSchema("report", sink.text());
  return sink.text();
}

inline void ExpectFactorsMultiply(const report::EfficiencyFactors& e) {
  if (!e.parallel) return;
  EXPECT_NEAR(*e.parallel, *e.load_balance * *e.communication * *e.orchestration, 1e-9);
}

// The lost time is the sum of the ranks' cost, the transfers' cost, and the cost of kernels beside
// communication. Cells are whole nanoseconds, which gives the tolerance.
inline void ExpectHeatMapAddsUp(const report::Report& made) {
  double ranks = 0;
  size_t cells = 0;
  for (const report::StepRow& s : made.steps) {
    for (const report::StepRankRow& r : s.ranks) {
      if (!r.lost) return;
      ranks += static_cast<double>(r.lost->ns());
      ++cells;
    }
  }
  const double lost = *made.slowdown.lost_ns_per_step;
  const double others = made.efficiency.critical_communication_ns_per_step.value_or(0) +
                        made.slowdown.unexplained_ns_per_step.value_or(0);
  EXPECT_NEAR(ranks / static_cast<double>(made.steps.size()) + others, lost,
              1e-6 * std::abs(lost) + 0.5 * static_cast<double>(cells));
}

inline void ExpectWaitingAddsUp(const report::Report& made) {
  if (!made.waiting) return;
  double cells = 0, causers = 0;
  for (const report::WaitingCellRow& c : made.waiting->cells) {
    ASSERT_LT(std::max(c.causer, c.victim), made.waiting->places.size());
    cells += c.wait_ns_per_step;
  }
  for (const report::WaitingCauserRow& c : made.waiting->causers)
    causers += c.direct_ns_per_step + c.passed_on_ns_per_step;
  const double explained = made.waiting->waited_ns_per_step - made.waiting->unexplained_ns_per_step;
  EXPECT_LE(cells, explained + 1);
  EXPECT_GE(cells, explained -
                       1e-4 * static_cast<double>(made.waiting->places.size() * made.waiting->places.size()) *
                           made.waiting->waited_ns_per_step -
                       1);
  EXPECT_LE(causers, explained + 1);
}

// Checks every sum in the report.
inline void ExpectConsistent(const report::Report& made) {
  for (const report::RankRow& r : made.ranks) {
    EXPECT_EQ(r.compute + r.exposed_transfer + r.exposed_wait + r.exposed_unsplit + r.exposed_memory + r.idle,
              r.span);
  }
  if (!made.slowdown.lost_ns_per_step) return;
  // No job is faster than typical, except by chance. With few steps, the limit for chance is 2 % of a step.
  EXPECT_GE(*made.slowdown.lost_ns_per_step,
            -made.slowdown.noise_floor_ns_per_step.value_or(0.02 * *made.slowdown.step_ns));
  double sum = *made.slowdown.noise_ns_per_step + *made.slowdown.unlisted_ns_per_step +
               *made.slowdown.unexplained_ns_per_step;
  for (const report::StragglerRow& s : made.stragglers) sum += s.lost_ns_per_step;
  EXPECT_NEAR(sum, *made.slowdown.lost_ns_per_step, 1e-6 * std::abs(*made.slowdown.lost_ns_per_step) + 1e-6);
  const double most_gain = std::max(0.0, *made.slowdown.lost_ns_per_step) * (1 + 1e-9);
  for (const report::StragglerRow& s : made.stragglers) EXPECT_LE(s.gain_ns_per_step.value_or(0), most_gain);
  for (const report::FixRow& f : made.fixes) EXPECT_LE(f.gain_ns_per_step, most_gain);
  ExpectHeatMapAddsUp(made);
  ExpectFactorsMultiply(made.efficiency.factors);
  for (const report::StepRow& s : made.steps) ExpectFactorsMultiply(s.efficiency);
  for (const report::GroupEfficiencyRow& g : made.efficiency.groups) ExpectFactorsMultiply(g.factors);
  ExpectWaitingAddsUp(made);
}

}  // namespace lockstep::tests

#endif  // LOCKSTEP_TESTS_SUPPORT_REPORT_CHECK_H_
