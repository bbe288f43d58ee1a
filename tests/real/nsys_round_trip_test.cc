// A capture, exported as nsys SQLite and read again, gets the same report.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "aggregator/trace/readers.h"
#include "aggregator/trace/writers.h"
#include "capture/infer/infer_groups.h"
#include "report/report.h"
#include "report/written_job_fixture.h"
#include "tests/support/report_check.h"

namespace lockstep::report {
namespace {

// As ReadInput() leaves a capture.
void Settle(store::Capture& capture) {
  store::Finish(capture);
  align::InferGroups(capture);
}

bool StartsNumber(char c) { return c == '-' || (c >= '0' && c <= '9'); }

// The same text, but for numbers that differ in their last digits: sums over rows of equal times may be taken
// in another order.
void ExpectSameDocument(const std::string& read, const std::string& original) {
  const char* a = read.c_str();
  const char* b = original.c_str();
  while (*a != '\0' && *b != '\0') {
    if (StartsNumber(*a) && StartsNumber(*b)) {
      char *a_end = nullptr, *b_end = nullptr;
      const double x = std::strtod(a, &a_end), y = std::strtod(b, &b_end);
      ASSERT_NEAR(x, y, 1e-12 * std::max(1.0, std::abs(y))) << std::string(b, 80);
      if (a_end > a && b_end > b) {
        a = a_end;
        b = b_end;
        continue;
      }
    }
    ASSERT_EQ(*a, *b) << "read:     " << std::string(a).substr(0, 160)
                      << "\noriginal: " << std::string(b).substr(0, 160);
    ++a;
    ++b;
  }
  EXPECT_EQ(*a, *b);
}

TEST(NsysRoundTrip, TheReportIsTheSame) {
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / ("round_trip_" + std::to_string(::getpid()) + ".sqlite"))
          .string();
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    WrittenJob job = WriteJob(seed);
    for (store::RankData& rank : job.capture.ranks)
      rank.has_properties = true;  // as every source that knows them says
    Settle(job.capture);
    const Analysis before = Analyze(job.capture);
    const absl::Status written = trace::WriteNsysSqlite(job.capture, before.clock, path);
    ASSERT_TRUE(written.ok()) << written;
    auto read = trace::ReadInput(std::vector<std::string>{path}, {});
    ASSERT_TRUE(read.ok()) << read.status();
    store::Capture named = std::move(*read);
    named.id = job.capture.id;  // a capture without a name is called after its file
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ExpectSameDocument(tests::CheckedJson(Analyze(named).report), tests::CheckedJson(before.report));
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace lockstep::report
