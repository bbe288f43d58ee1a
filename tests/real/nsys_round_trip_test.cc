// Exports a capture as nsys SQLite and reads it like any export of Nsight Systems.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "formats/input/read_input.h"
#include "formats/nsys/nsys_writer.h"
#include "report/report.h"
#include "report/written_job_fixture.h"
#include "tests/support/report_check.h"

namespace lockstep::report {
namespace {

// Rows of a rank's device, in an order that does not depend on the tables' order. Only kernels have their
// names, because a copy's name in the export comes from its kind.
auto DeviceRows(const capture::Capture& capture, const capture::RankData& rank) {
  std::vector<std::tuple<int64_t, int64_t, uint32_t, uint32_t, int, bool, std::string>> rows;
  for (const capture::DeviceActivity& a : rank.activities) {
    const bool kernel = a.kind == capture::ActivityKind::kKernel;
    rows.emplace_back(a.start.ns(), a.end.ns(), a.stream.value(), a.correlation.value(),
                      static_cast<int>(a.kind), a.communication, kernel ? capture.Text(a.name) : "");
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

auto HostRows(const capture::Capture& capture, const capture::RankData& rank) {
  std::vector<std::tuple<int64_t, int64_t, uint32_t, int64_t, std::string>> rows;
  for (const capture::ApiCall& c : rank.api_calls) {
    rows.emplace_back(c.start.ns(), c.end.ns(), c.correlation.value(), c.thread.value(),
                      capture.Text(c.name));
  }
  for (const capture::HostRange& r : rank.ranges)
    rows.emplace_back(r.start.ns(), r.end.ns(), 0, r.thread.value(), capture.Text(r.name));
  std::sort(rows.begin(), rows.end());
  return rows;
}

// Compares the figures that depend on these rows only. Waiting is left out: no table has the communicators,
// so that they must be inferred.
void ExpectSameTimes(const Report& x, const Report& y) {
  ASSERT_EQ(x.ranks.size(), y.ranks.size());
  for (size_t i = 0; i < x.ranks.size(); ++i) {
    const RankRow &p = x.ranks[i], &q = y.ranks[i];
    EXPECT_EQ(std::tuple(p.rank, p.host, p.span, p.compute, p.communication, p.memory, p.overlap,
                         p.exposed_communication, p.exposed_memory, p.idle, p.gpu_utilization,
                         p.tensor_core_fraction),
              std::tuple(q.rank, q.host, q.span, q.compute, q.communication, q.memory, q.overlap,
                         q.exposed_communication, q.exposed_memory, q.idle, q.gpu_utilization,
                         q.tensor_core_fraction));
  }
  ASSERT_EQ(x.steps.size(), y.steps.size());
  for (size_t i = 0; i < x.steps.size(); ++i) {
    EXPECT_EQ(std::tuple(x.steps[i].step, x.steps[i].duration),
              std::tuple(y.steps[i].step, y.steps[i].duration));
  }
}

TEST(NsysRoundTrip, RowsAndDerivedTimesAreUnchanged) {
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / ("round_trip_" + std::to_string(::getpid()) + ".sqlite"))
          .string();
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    WrittenJob job = WriteJob(seed);
    capture::Finish(job.capture);
    const Analysis before = Analyze(job.capture);
    const absl::Status written = formats::WriteNsysSqlite(job.capture, before.clock, path);
    ASSERT_TRUE(written.ok()) << written;
    auto read = formats::ReadInput(std::vector<std::string>{path}, {});
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->ranks.size(), job.capture.ranks.size());
    for (size_t i = 0; i < read->ranks.size(); ++i) {
      const capture::RankData &original = job.capture.ranks[i], &again = read->ranks[i];
      EXPECT_TRUE(DeviceRows(*read, again) == DeviceRows(job.capture, original)) << "rank " << i;
      EXPECT_TRUE(HostRows(*read, again) == HostRows(job.capture, original)) << "rank " << i;
    }
    const Analysis after = Analyze(*read);
    tests::CheckedJson(after.report);
    ExpectSameTimes(before.report, after.report);
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace lockstep::report
