// For tests: a report as JSON, checked against the published schema.
#ifndef LOCKSTEP_TESTS_SUPPORT_REPORT_CHECK_H_
#define LOCKSTEP_TESTS_SUPPORT_REPORT_CHECK_H_

#include <fstream>
#include <sstream>
#include <string>

#include "aggregator/report/report.h"
#include "gtest/gtest.h"
#include "tests/support/json_schema.h"

namespace lockstep::tests {

inline std::string Schema() {
  std::ifstream in(std::string(LOCKSTEP_SOURCE_DIR) + "/docs/formats/report.schema.json");
  std::ostringstream out;
  out << in.rdbuf();
  EXPECT_FALSE(out.str().empty()) << "docs/formats/report.schema.json is missing";
  return out.str();
}

inline std::string CheckedJson(const report::Report& made) {
  store::StringSink sink;
  EXPECT_TRUE(report::WriteJson(made, sink).ok());
  for (const std::string& error : SchemaErrors(Schema(), sink.text())) ADD_FAILURE() << error;
  return sink.text();
}

// Every number of `ranks` that must add up does.
inline void ExpectConsistent(const report::Report& made) {
  for (const report::RankRow& r : made.ranks) {
    EXPECT_EQ(r.compute + r.exposed_transfer + r.exposed_wait + r.exposed_unsplit + r.exposed_memory + r.idle, r.span);
  }
  if (!made.slowdown.lost_ns_per_step) return;
  double sum = *made.slowdown.noise_ns_per_step + *made.slowdown.unlisted_ns_per_step + *made.slowdown.unexplained_ns_per_step;
  for (const report::StragglerRow& s : made.stragglers) sum += s.lost_ns_per_step;
  EXPECT_NEAR(sum, *made.slowdown.lost_ns_per_step, 1e-6 * std::abs(*made.slowdown.lost_ns_per_step) + 1e-6);
}

}  // namespace lockstep::tests

#endif  // LOCKSTEP_TESTS_SUPPORT_REPORT_CHECK_H_
