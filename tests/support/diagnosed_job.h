// Diagnoses of small jobs, for tests of the rules for causes and of the diagnosis.
#ifndef LOCKSTEP_TESTS_SUPPORT_DIAGNOSED_JOB_H_
#define LOCKSTEP_TESTS_SUPPORT_DIAGNOSED_JOB_H_

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "analysis/explain/causes.h"
#include "analysis/explain/diagnosis.h"
#include "analysis/replay/prepared.h"
#include "gtest/gtest.h"
#include "tests/support/small_job.h"

namespace lockstep::tests {

// Analyses the job on one thread.
inline analysis::Diagnosis DiagnoseJob(const SmallJob& job) {
  const capture::Capture capture = CaptureOf(job);
  const analysis::Prepared prepared(capture, 1);
  return analysis::Diagnose(prepared.input());
}

// The findings, for messages of failed tests.
inline std::string Describe(const analysis::Diagnosis& d) {
  std::string out;
  for (const analysis::Finding& f : d.findings) {
    out += std::string(analysis::CulpritKindName(f.kind)) + " [";
    for (uint32_t r : f.rank_indices) out += std::to_string(r) + " ";
    out += "] " + std::string(analysis::CauseName(f.cause)) + " verdict " +
           std::to_string(static_cast<int>(f.verdict)) + " lost " + analysis::LengthText(f.lost_ns) +
           " gain " + analysis::LengthText(f.gain_ns) + "\n";
    for (const std::string& e : f.evidence) out += "    " + e + "\n";
  }
  out += "  floor " + analysis::LengthText(d.noise_floor_ns.value_or(-1)) + " of " +
         analysis::LengthText(d.step_ns) + "\n";
  for (const std::string& n : d.not_the_cause) out += "  not: " + n + "\n";
  return out;
}

// Expects that the first finding names exactly these ranks, with this kind and this cause.
inline void ExpectFirst(const analysis::Diagnosis& d, analysis::CulpritKind kind,
                        const std::vector<uint32_t>& ranks, analysis::Cause cause) {
  ASSERT_FALSE(d.findings.empty()) << Describe(d);
  const analysis::Finding& f = d.findings[0];
  EXPECT_EQ(analysis::CulpritKindName(f.kind), analysis::CulpritKindName(kind)) << Describe(d);
  EXPECT_EQ(analysis::CauseName(f.cause), analysis::CauseName(cause)) << Describe(d);
  std::vector<uint32_t> named = f.rank_indices;
  std::sort(named.begin(), named.end());
  EXPECT_EQ(named, ranks) << Describe(d);
  EXPECT_FALSE(f.evidence.empty());
  double sum = d.noise_ns + d.unlisted_ns + d.unexplained_ns;
  for (const analysis::Finding& each : d.findings) sum += each.lost_ns;
  EXPECT_NEAR(sum, d.lost_ns, 1e-6 * std::max(1.0, std::fabs(d.lost_ns)));
}

}  // namespace lockstep::tests

#endif  // LOCKSTEP_TESTS_SUPPORT_DIAGNOSED_JOB_H_
