// Reads nvprof's trace in CSV: rows, units, and errors with their line.
#include "formats/nvprof/nvprof_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/files/read_files.h"

namespace lockstep::formats {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTraceHeader[] =
    "\"Start\",\"Duration\",\"Grid X\",\"Grid Y\",\"Grid Z\",\"Block X\",\"Block Y\",\"Block Z\",\"Registers "
    "Per Thread\",\"Static SMem\",\"Dynamic SMem\",\"Size\",\"Throughput\",\"Device\",\"Context\",\"Stream\","
    "\"Name\"\n";
constexpr char kTraceUnits[] = "s,ms,,,,,,,,KB,B,MB,MB/s,,,,\n";
constexpr char kTraceKernel[] =
    "13.269618,2.408055,12,24,1,32,16,1,40,3.750000,0,,,\"GTX (0)\",\"1\",\"7\",\"step(float*, int) "
    "[1128]\"\n";

absl::StatusOr<capture::Capture> ReadTrace(std::string_view text, const std::string& path = "gpu.csv") {
  MemorySource source(text);
  auto capture = ReadNvprof(source, {path, true, path}, nullptr);
  if (capture.ok()) capture::Finish(*capture);
  return capture;
}

std::string GoldenTrace() {
  return FileText(LOCKSTEP_SOURCE_DIR "/tests/golden/nvprof/gpu_and_api_trace.csv").value_or("");
}

TEST(NvprofReaderTest, ReadsEveryKindOfRow) {
  const auto capture = ReadTrace(GoldenTrace(), "trace-rank3.csv");
  ASSERT_TRUE(capture.ok()) << capture.status();
  ASSERT_EQ(capture->ranks.size(), 2u) << "one entry per device";
  const capture::RankData& rank = capture->ranks[0];
  EXPECT_EQ(rank.rank, RankId(3));
  EXPECT_EQ(rank.pid, 4711);
  EXPECT_EQ(rank.program, "python");
  EXPECT_EQ(rank.properties.name, "Tesla V100-SXM2-16GB");
  ASSERT_EQ(rank.activities.size(), 3u);

  const capture::DeviceActivity& copy = rank.activities[0];
  EXPECT_EQ(copy.kind, capture::ActivityKind::kMemcpy);
  EXPECT_EQ(capture->Text(copy.name), "Memcpy HtoD (Pinned -> Device)");
  EXPECT_EQ(copy.start.ns(), 100'020'000);
  EXPECT_EQ(copy.end.ns(), 100'032'000);
  EXPECT_EQ(rank.copy_details[copy.detail].bytes, 4u << 20);
  EXPECT_NEAR(rank.copy_details[copy.detail].bandwidth_gb_per_s, 11 * 1.073741824, 1e-9);

  const capture::DeviceActivity& set = rank.activities[1];
  EXPECT_EQ(capture->Text(set.name), "Memset (Device)");
  EXPECT_EQ(set.end.ns() - set.start.ns(), 205) << "0.2048 us";
  EXPECT_EQ(rank.copy_details[set.detail].bytes, 20u) << "0.000019 MB, rounded by nvprof";

  const capture::DeviceActivity& kernel = rank.activities[2];
  EXPECT_EQ(capture->Text(kernel.name), "void scale<float, int=4>(float*, \"x\", int)");
  EXPECT_EQ(kernel.correlation, CorrelationId(9));
  EXPECT_EQ(kernel.stream, StreamId(7));
  const capture::KernelDetail& detail = rank.kernel_details[kernel.detail];
  EXPECT_EQ(detail.grid[0], 128u);
  EXPECT_EQ(detail.block[1], 2u);
  EXPECT_EQ(detail.registers, 19u);
  EXPECT_EQ(detail.static_shared_bytes, 3840u);
  EXPECT_EQ(detail.dynamic_shared_bytes, 512u);

  ASSERT_EQ(rank.api_calls.size(), 2u);
  EXPECT_EQ(capture->Text(rank.api_calls[1].name), "cudaLaunchKernel");
  EXPECT_EQ(rank.api_calls[1].correlation, kernel.correlation);
  EXPECT_EQ(capture->ranks[1].device, DeviceId(1));
  EXPECT_EQ(capture->ranks[1].copy_details[0].copy_kind, 10);
  EXPECT_THAT(capture->notes, Contains(HasSubstr("1 rows of unified memory")));
  EXPECT_THAT(capture->notes, Not(Contains(HasSubstr("--print-api-trace"))));
}

TEST(NvprofReaderTest, ReadsTheColumnsOfOldVersions) {
  const auto capture =
      ReadTrace(absl::StrCat("==1== Profiling result:\n", kTraceHeader, kTraceUnits, kTraceKernel));
  ASSERT_TRUE(capture.ok()) << capture.status();
  const capture::RankData& rank = capture->ranks[0];
  EXPECT_EQ(rank.rank, RankId(0));
  EXPECT_EQ(capture->Text(rank.activities[0].name), "step(float*, int)");
  EXPECT_EQ(rank.activities[0].correlation, CorrelationId(1128));
  EXPECT_EQ(rank.activities[0].start.ns(), 13'269'618'000);
  EXPECT_THAT(capture->notes, Contains(HasSubstr("--normalized-time-unit ns")));
  EXPECT_THAT(capture->notes, Contains(HasSubstr("--print-api-trace")));
}

TEST(NvprofReaderTest, CountsALineThatIsCutOff) {
  const std::string whole = absl::StrCat(kTraceHeader, kTraceUnits, kTraceKernel, kTraceKernel);
  const auto capture = ReadTrace(whole.substr(0, whole.size() - 40));
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_EQ(capture->ranks[0].activities.size(), 1u);
  ASSERT_EQ(capture->ranks[0].losses.size(), 1u);
  EXPECT_EQ(capture->ranks[0].losses[0].records, 1u);
  EXPECT_EQ(capture->ranks[0].losses[0].reason, "gpu.csv line 4: the text is truncated here");
}

TEST(NvprofReaderTest, ReadsEveryUnitOfTime) {
  const struct {
    const char* units;
    int64_t start_ns;
  } kCases[] = {{"s,ms", 13'269'618'000}, {"ms,ms", 13'269'618}, {"us,ms", 13'270}, {"ns,ms", 13}};
  for (const auto& c : kCases) {
    const auto capture = ReadTrace(
        absl::StrReplaceAll(absl::StrCat(kTraceHeader, kTraceUnits, kTraceKernel), {{"s,ms", c.units}}));
    ASSERT_TRUE(capture.ok()) << capture.status();
    EXPECT_EQ(capture->ranks[0].activities[0].start.ns(), c.start_ns) << c.units;
  }
}

TEST(NvprofReaderTest, RefusesWhatNvprofDoesNotPrintWithItsLine) {
  const std::string whole = absl::StrCat(kTraceHeader, kTraceUnits, kTraceKernel);
  const struct {
    std::string from, to;
    std::string says;
  } kCases[] = {
      {"s,ms", "s,min", "gpu.csv line 2: \"min\" is not a unit of time (s, ms, us, ns) for \"Duration\"; "},
      {",MB,", ",furlong,", "gpu.csv line 2: \"furlong\" is not a unit of size"},
      {"13.269618", "soon", "gpu.csv line 3: \"soon\" is not a time for \"Start\"; "},
      {"13.269618", "-1", "gpu.csv line 3: \"-1\" is not a time"},
      {"2.408055", "1e300", "gpu.csv line 3: \"1e300\" is not a time for \"Duration\"; "},
      {"2.408055", "", "gpu.csv line 3: \"\" is not a time for \"Duration\"; "},
      {",12,24", ",12", "gpu.csv line 3: 16 fields in a table of 17 columns; "},
      {",12,24", ",x,24", "gpu.csv line 3: \"x\" is not a number that fits for \"Grid X\"; "},
      {",40,", ",70000,", "gpu.csv line 3: \"70000\" is not a number that fits"},
      {"3.750000", "nan", "gpu.csv line 3: \"nan\" is not a size"},
      {"[1128]\"", "[1128]", "gpu.csv line 3: a quote is not closed"},
      {"\"7\"", "\"7\"7", "gpu.csv line 3: a quote is not closed, or text follows it"},
      {"GTX (0)", "GTX \x1b[31m", "gpu.csv line 3: \"GTX ?[31m\" is not a device"},
      {"\"step(float*, int) [1128]\"", "", "gpu.csv line 3: the row has no name; "},
      {"\"Size\"", "\"Device\"", "gpu.csv line 1: two columns are called \"Device\"; "},
      {"\"Name\"", "\"Title\"", "gpu.csv line 1: no column is called \"Name\"; "},
      {kTraceUnits, "", "gpu.csv line 2: \"13.269618\" is not a unit of time"},
      {kTraceKernel, absl::StrCat(kTraceKernel, kTraceHeader),
       "gpu.csv line 4: a second trace begins here; "},
      {kTraceKernel, "", "gpu.csv is output of nvprof without kernels"},
      {kTraceHeader, "==1== No kernels were profiled.\n", "gpu.csv is output of nvprof without kernels"},
      {kTraceHeader, std::string(2 << 20, 'x'), "gpu.csv line 1: the line is longer"},
  };
  for (const auto& c : kCases) {
    const auto capture = ReadTrace(absl::StrReplaceAll(whole, {{c.from, c.to}}));
    ASSERT_FALSE(capture.ok()) << c.says;
    EXPECT_EQ(capture.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(capture.status().message()), AllOf(HasSubstr(c.says), HasSubstr("; ")));
  }
}

}  // namespace
}  // namespace lockstep::formats
