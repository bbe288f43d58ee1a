// A capture, exported as nsys SQLite and read again, gets the same report.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "aggregator/align/infer_groups.h"
#include "aggregator/report/report.h"
#include "aggregator/report/written_job.h"
#include "aggregator/trace/readers.h"
#include "aggregator/trace/writers.h"
#include "tests/support/report_check.h"

namespace lockstep::report {
namespace {

// As ReadInput() leaves a capture.
void Settle(store::Capture& capture) {
  store::Finish(capture);
  align::InferGroups(capture);
}

TEST(NsysRoundTrip, TheReportIsTheSame) {
  const std::string path = (std::filesystem::path(testing::TempDir()) / ("round_trip_" + std::to_string(::getpid()) + ".sqlite")).string();
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    WrittenJob job = WriteJob(seed);
    for (store::RankData& rank : job.capture.ranks) rank.has_properties = true;  // as every source that knows them says
    Settle(job.capture);
    const Analysis before = Analyze(job.capture);
    const absl::Status written = trace::WriteNsysSqlite(job.capture, before.clock, path);
    ASSERT_TRUE(written.ok()) << written;
    auto read = trace::ReadInput(std::vector<std::string>{path}, {});
    ASSERT_TRUE(read.ok()) << read.status();
    store::Capture named = std::move(*read);
    named.id = job.capture.id;  // a capture without a name is called after its file
    EXPECT_EQ(tests::CheckedJson(Analyze(named).report), tests::CheckedJson(before.report)) << "seed " << seed;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace lockstep::report
