// Inputs of all formats have the same content if their rows move to a disk while they are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files/byte_sink.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/row_overflow.h"
#include "capture/store/records_writer.h"
#include "formats/input/input_files_fixture.h"
#include "formats/input/read_input.h"
#include "formats/kineto/kineto_writer.h"
#include "formats/nsys/nsys_writer.h"
#include "wire/columns/columns.h"

namespace lockstep::formats {
namespace {

constexpr int64_t kStart = 1'790'000'000'000'000'000;
constexpr int kJobRanks = 3, kJobRows = 6000;  // a table of 6,000 rows is large enough to move

template <typename Rows, typename Write>
void AppendRows(const Rows& rows, const Write& write, std::string& text) {
  absl::StrAppend(&text, "rows ", rows.size(), "\n");
  for (const auto& row : rows) write(row, text);
}

void AppendRank(const capture::Capture& capture, const capture::RankData& rank, std::string& text) {
  absl::StrAppend(&text, "rank ", rank.rank.value(), " device ", rank.device.value(), "\n");
  const auto times = [](const auto& row, std::string& out) {
    absl::StrAppend(&out, row.start.ns(), " ", row.end.ns(), " ");
  };
  AppendRows(
      rank.activities,
      [&](const capture::DeviceActivity& a, std::string& out) {
        times(a, out);
        absl::StrAppend(&out, a.name.value(), " ", std::string(capture.Text(a.name)), " ", a.stream.value(),
                        " ", a.correlation.value(), " ", a.detail, " ", a.collective, " ",
                        static_cast<int>(a.kind), a.communication ? " communication\n" : "\n");
      },
      text);
  AppendRows(
      rank.kernel_details,
      [](const capture::KernelDetail& d, std::string& out) {
        absl::StrAppend(&out, d.grid[0], " ", d.block[0], " ", d.registers, "\n");
      },
      text);
  AppendRows(
      rank.api_calls,
      [&](const capture::ApiCall& call, std::string& out) {
        times(call, out);
        absl::StrAppend(&out, std::string(capture.Text(call.name)), " ", call.correlation.value(), "\n");
      },
      text);
  AppendRows(
      rank.ranges,
      [&](const capture::HostRange& range, std::string& out) {
        times(range, out);
        absl::StrAppend(&out, std::string(capture.Text(range.name)), " ", range.depth, " ",
                        static_cast<int>(range.kind), "\n");
      },
      text);
  AppendRows(
      rank.collectives,
      [](const capture::Collective& c, std::string& out) {
        absl::StrAppend(&out, c.activity, " ", c.group, " ", static_cast<int>(c.op), " ", c.bytes, " ",
                        c.sequence, "\n");
      },
      text);
}

std::string ContentOf(const capture::Capture& capture) {
  std::string text;
  for (const std::string& note : capture.notes) absl::StrAppend(&text, note, "\n");
  for (const capture::RankData& rank : capture.ranks) AppendRank(capture, rank, text);
  return text;
}

class OverflowTest : public InputFilesTest {
 protected:
  // The rows of rank `rank`, from `first` on. Every hundredth kernel is a collective.
  static std::string TimelineRows(int rank, int first, int end) {
    std::string rows = absl::StrCat("rank ", rank, " host=0\n");
    for (int i = first; i < end; ++i) {
      const int64_t at = int64_t{10'000} * i + rank;
      if (i % 1000 == 0) absl::StrAppend(&rows, "s ", i / 1000, " ", at, " 9999000 t=1\n");
      absl::StrAppend(&rows, "a 1 2 ", at, " 2000 c=", i + 1, "\n");
      absl::StrAppend(&rows, i % 100 == 0 ? "c 7 1 " : "k 7 0 ", at + 3000, " 5000 ",
                      i % 100 == 0 ? absl::StrCat("0 all_reduce bytes=1024 seq=", i / 100, " ") : "",
                      "c=", i + 1, " g=", 1 + i % 5, ",1,1\n");
    }
    return rows;
  }
  static std::string TimelineOf(std::span<const std::string> parts) {
    std::string text = absl::StrCat(
        "lockstep-timeline 1\njob test\nhost n0\ngroup dp dp 0-", kJobRanks - 1,
        "\nname gemm\nname ncclDevKernel_AllReduce_Sum_f32\nname cudaLaunchKernel\nbase ", kStart, "\n");
    for (const std::string& part : parts) absl::StrAppend(&text, part);
    return text + "end\n";
  }
  std::string WriteTimeline() const {
    std::vector<std::string> parts;
    for (int rank = 0; rank < kJobRanks; ++rank) parts.push_back(TimelineRows(rank, 0, kJobRows));
    return Write("job.timeline", TimelineOf(parts));
  }
  static capture::Capture ReadInMemory(const std::string& path) {
    auto capture = ReadInput(std::vector<std::string>{path}, {});
    EXPECT_TRUE(capture.ok()) << capture.status();
    return capture.ok() ? *std::move(capture) : capture::Capture();
  }

  // Skips the test if no folder is on a disk.
  void ExpectTheSameOnADisk(const std::string& path) {
    const std::vector<std::string> folders = {testing::TempDir(), "/var/tmp", "."};
    // In some containers all folders are in memory, where such a file would save nothing.
    if (auto disk = capture::DiskRows::Create(folders); !disk.ok()) GTEST_SKIP() << disk.status();
    const std::string whole = ContentOf(ReadInMemory(path));
    for (const uint64_t room : {0, kJobRows, 2 * kJobRows}) {
      SCOPED_TRACE(absl::StrCat("room for ", room, " rows"));
      capture::RowOverflow overflow([room](uint64_t rows, uint64_t) { return rows <= room; }, folders);
      const auto moved = ReadInput(std::vector<std::string>{path}, {.overflow = &overflow});
      ASSERT_TRUE(moved.ok()) << moved.status();
      const auto disk = overflow.TakeDisk();
      ASSERT_NE(disk, nullptr) << "nothing moved";
      EXPECT_GT(disk->bytes(), 300'000u);
      EXPECT_EQ(ContentOf(*moved), whole);
    }
  }
};

TEST_F(OverflowTest, Timeline) { ExpectTheSameOnADisk(WriteTimeline()); }

TEST_F(OverflowTest, TimelineWithRanksInTurns) {
  std::vector<std::string> parts;
  for (int first = 0; first < kJobRows; first += 500) {
    for (int rank = 0; rank < kJobRanks; ++rank) parts.push_back(TimelineRows(rank, first, first + 500));
  }
  const std::string path = Write("job.timeline", TimelineOf(parts));
  EXPECT_EQ(ContentOf(ReadInMemory(path)), ContentOf(ReadInMemory(WriteTimeline())));
  ExpectTheSameOnADisk(path);
}

TEST_F(OverflowTest, KinetoTraces) {
  const capture::Capture job = ReadInMemory(WriteTimeline());
  const capture::ClockModel clock = capture::EstimateClocks(job, capture::Match(job));
  std::filesystem::remove(folder_ / "job.timeline");
  for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    StringSink text;
    ASSERT_TRUE(WriteKineto(job, rank, clock, text).ok());
    Write(KinetoFileName(job, rank), text.text());
  }
  ExpectTheSameOnADisk(folder_.string());
}

TEST_F(OverflowTest, NsysExport) {
  const capture::Capture job = ReadInMemory(WriteTimeline());
  const capture::ClockModel clock = capture::EstimateClocks(job, capture::Match(job));
  const std::string path = (folder_ / "job.sqlite").string();
  ASSERT_TRUE(WriteNsysSqlite(job, clock, path).ok());
  ExpectTheSameOnADisk(path);
}

TEST_F(OverflowTest, RecordsOfALiveCapture) {
  const std::string path = (folder_ / "capture").string();
  capture::Manifest manifest;
  manifest.id = "c";
  manifest.complete = true;
  manifest.world_size = kJobRanks;
  manifest.hosts = {{"node", "n0", {}}};
  for (int rank = 0; rank < kJobRanks; ++rank) {
    capture::ManifestProcess process;
    process.rank = RankId(rank);
    process.host = 0;
    process.state = "done";
    process.window = {HostTime(kStart), HostTime(kStart + int64_t{10'000} * kJobRows)};
    manifest.processes.push_back(process);
  }
  auto writer = *capture::RecordsWriter::Create(path, manifest);
  for (uint32_t rank = 0; rank < kJobRanks; ++rank) {
    namespace c = columns::kernel;
    columns::BlockBuilder builder(columns::Kind::kKernel);
    for (int i = 0; i < kJobRows; ++i) {
      std::vector<uint64_t> row(columns::Schema(columns::Kind::kKernel).size(), 0);
      // Not in the order of time, and under linker names.
      row[c::kStart] = static_cast<uint64_t>(kStart + int64_t{10'000} * (i ^ 1));
      row[c::kDuration] = 5000;
      row[c::kName] = i % 100 == 0 ? 2 : 1;
      row[c::kStream] = 7;
      row[c::kGridX] = static_cast<uint64_t>(1 + i % 5);
      builder.Append(row);
    }
    std::string blocks;
    columns::EncodeStrings(
        1, std::vector<columns::StringDefinition>{{1, "_Z4gemmi"}, {2, "ncclDevKernel_AllReduce_Sum_f32(x)"}},
        blocks);
    builder.Encode(1, 0, blocks);
    ASSERT_TRUE(writer->Append({rank, 1}, RankId(static_cast<int32_t>(rank)), blocks).ok());
    manifest.processes[rank].files = writer->Files(rank);
  }
  ASSERT_TRUE(writer->Close(manifest).ok());
  EXPECT_THAT(ContentOf(ReadInMemory(path)), testing::HasSubstr("gemm(int)"));
  ExpectTheSameOnADisk(path);
}

}  // namespace
}  // namespace lockstep::formats
