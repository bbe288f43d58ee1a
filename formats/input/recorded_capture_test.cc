// LoadCapture() joins records and traces of PyTorch's profiler into one capture.
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "capture/store/records_writer.h"
#include "formats/input/input_files_fixture.h"
#include "formats/input/read_input.h"
#include "formats/kineto/kineto_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/columns/columns.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kT0 = 1'790'000'000'000'000'000;

// A trace with an all-reduce of both ranks, as PyTorch writes it.
std::string OneRankTrace(const std::string& members = "") {
  const std::string meta =
      R"(, "Collective name": "allreduce", "In msg nelems": 100, "Out msg nelems": 100, "Group size": 2, "dtype": "Float", )"
      R"("Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]", "Seq": 1)";
  return Document(
      {KernelRow("1000", "10"), KernelRow("1020", "30", "ncclDevKernel_AllReduce_Sum_f32(x)", meta)},
      R"("baseTimeNanoseconds": 1790000000000000000, )" + members);
}

class RecordedCaptureTest : public testing::Test {
 protected:
  RecordedCaptureTest() {
    folder_ = fs::path(testing::TempDir()) / ("recorded_capture_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    manifest_.id = "c";
    manifest_.job = "job";
    manifest_.world_size = 2;
    manifest_.complete = true;
    manifest_.t0 = JobTime(kT0);
    manifest_.t1 = JobTime(kT0 + 1'000'000'000);
    manifest_.hosts = {
        {"node",
         "n0",
         {{HostTime(kT0 - 400), JobTime(kT0), JobTime(kT0), HostTime(kT0 + 600), MonoTime(1)}}}};
    for (int rank = 0; rank < 2; ++rank) {
      capture::ManifestProcess process;
      process.rank = RankId(rank);
      process.host = 0;
      process.pid = 100 + rank;
      process.incarnation = 3;
      process.program = "python";
      process.rank_source = "torchrun";
      process.window = {HostTime(kT0), HostTime(kT0 + 1'000'000'000)};
      process.state = "done";
      process.via = "kineto";
      manifest_.processes.push_back(process);
    }
  }
  ~RecordedCaptureTest() override { fs::remove_all(folder_); }

  std::string Folder() const { return (folder_ / "capture").string(); }
  // An empty text stands for a trace that did not arrive.
  void WriteTraces(const std::vector<std::string>& traces) {
    writer_ = *capture::RecordsWriter::Create(Folder(), manifest_);
    for (uint32_t p = 0; p < traces.size(); ++p) {
      if (traces[p].empty()) continue;
      ASSERT_TRUE(writer_->AppendTrace({manifest_.processes[p].rank, p}, 0, traces[p]).ok());
      ASSERT_TRUE(writer_->FinishTrace({manifest_.processes[p].rank, p}).ok());
      manifest_.processes[p].trace = writer_->Trace(p, capture::TraceFileKind::kKineto);
    }
  }
  void WriteKernels(uint32_t process) {
    columns::BlockBuilder builder(columns::Kind::kKernel);
    std::vector<uint64_t> row(columns::Schema(columns::Kind::kKernel).size(), 0);
    row[columns::kernel::kStart] = kT0 + 1'000'000;
    row[columns::kernel::kDuration] = 10'000;
    builder.Append(row);
    row[columns::kernel::kStart] = kT0 + 1'020'000;
    row[columns::kernel::kName] = 1;
    builder.Append(row);
    std::string blocks;
    columns::EncodeStrings(
        1, std::vector<columns::StringDefinition>{{1, "ncclDevKernel_AllReduce_Sum_f32(x)"}}, blocks);
    builder.Encode(1, 0, blocks);
    ASSERT_TRUE(writer_->Append({process, 1}, manifest_.processes[process].rank, blocks).ok());
    manifest_.processes[process].via = "cupti";
    manifest_.processes[process].files = writer_->Files(process);
  }
  capture::Capture Load() {
    EXPECT_TRUE(writer_->Close(manifest_).ok());
    auto capture = LoadCapture(Folder(), {});
    EXPECT_TRUE(capture.ok()) << capture.status();
    return capture.ok() ? *std::move(capture) : capture::Capture();
  }
  static std::string Notes(const capture::Capture& capture) { return absl::StrJoin(capture.notes, "\n"); }

  fs::path folder_;
  capture::Manifest manifest_;
  std::unique_ptr<capture::RecordsWriter> writer_;
};

TEST_F(RecordedCaptureTest, TakesIdentityFromTheCaptureAndRowsFromTheTrace) {
  WriteTraces(
      {Gzip(OneRankTrace()),
       Gzip(OneRankTrace(R"("distributedInfo": {"rank": 1, "world_size": 2}, "host_name": "elsewhere", )"))});
  const capture::Capture capture = Load();
  EXPECT_TRUE(capture.live);
  EXPECT_EQ(capture.job, "job");
  EXPECT_THAT(capture.missing_ranks, IsEmpty());
  EXPECT_THAT(capture.notes, IsEmpty());
  ASSERT_EQ(capture.ranks.size(), 2u);
  for (int r = 0; r < 2; ++r) {
    const capture::RankData& rank = capture.ranks[static_cast<size_t>(r)];
    EXPECT_EQ(rank.rank, RankId(r));
    EXPECT_EQ(rank.rank_source, "torchrun");
    EXPECT_EQ(rank.pid, 100 + r);
    EXPECT_EQ(rank.incarnation, 3u);
    EXPECT_EQ(rank.program, "python");
    ASSERT_EQ(rank.activities.size(), 2u);
    EXPECT_EQ(rank.activities[0].start, HostTime(kT0 + 1'000'000)) << "the host's clock, as the file has it";
    ASSERT_EQ(rank.host, 0u);
  }
  EXPECT_EQ(capture.hosts.size(), 1u);
  EXPECT_EQ(capture.hosts[0].exchanges.size(), 1u) << "the clock's exchanges hold for these ranks too";
  ASSERT_EQ(capture.groups.size(), 1u);
  EXPECT_THAT(capture.groups[0].members, ElementsAre(RankId(0), RankId(1)));
  EXPECT_EQ(capture.ranks[0].collectives[0].source, capture::MatchSource::kGroupSequence);
}

TEST_F(RecordedCaptureTest, NamesRanksWithMissingOrUnreadableTraces) {
  manifest_.processes[0].text = "the process ended while capturing";
  WriteTraces({"", Gzip(OneRankTrace())});
  const capture::Capture capture = Load();
  ASSERT_EQ(capture.ranks.size(), 1u);
  EXPECT_THAT(capture.missing_ranks, ElementsAre(RankId(0)));
  EXPECT_THAT(Notes(capture), HasSubstr("the process ended while capturing"));
}

TEST_F(RecordedCaptureTest, LeavesOutATruncatedTraceAmongWholeOnes) {
  const std::string whole = OneRankTrace();
  WriteTraces({Gzip(whole.substr(0, whole.size() - 20)), Gzip(whole)});
  const capture::Capture capture = Load();
  ASSERT_EQ(capture.ranks.size(), 1u);
  EXPECT_EQ(capture.ranks[0].rank, RankId(1));
  EXPECT_THAT(capture.missing_ranks, ElementsAre(RankId(0)));
  EXPECT_THAT(Notes(capture), HasSubstr("is damaged"));
}

TEST_F(RecordedCaptureTest, ReadsASingleTraceUpToTheDamage) {
  manifest_.processes.pop_back();
  manifest_.world_size = 1;
  const std::string whole = OneRankTrace();
  WriteTraces({Gzip(whole.substr(0, whole.size() - 200))});
  const capture::Capture capture = Load();
  ASSERT_EQ(capture.ranks.size(), 1u);
  ASSERT_EQ(capture.ranks[0].losses.size(), 1u);
  EXPECT_EQ(capture.ranks[0].losses[0].stage, "import");
}

TEST_F(RecordedCaptureTest, NotesATraceThatStatesAnotherRank) {
  WriteTraces({Gzip(OneRankTrace(R"("distributedInfo": {"rank": 1}, )")), Gzip(OneRankTrace())});
  const capture::Capture capture = Load();
  EXPECT_EQ(capture.ranks[0].rank, RankId(0));
  EXPECT_THAT(Notes(capture), HasSubstr("states rank 1"));
}

TEST_F(RecordedCaptureTest, CountsLossesOnTheWay) {
  manifest_.processes[0].losses = {{"client", "", 1, "why", {}, {}}};
  WriteTraces({Gzip(OneRankTrace()), Gzip(OneRankTrace())});
  const capture::Capture capture = Load();
  ASSERT_EQ(capture.ranks[0].losses.size(), 1u);
  EXPECT_EQ(capture.ranks[0].losses[0].reason, "why");
}

TEST_F(RecordedCaptureTest, RanksOfBothSourcesShareOneCommunicator) {
  WriteTraces({"", Gzip(OneRankTrace())});
  WriteKernels(0);
  const capture::Capture capture = Load();
  ASSERT_EQ(capture.ranks.size(), 2u);
  EXPECT_THAT(capture.missing_ranks, IsEmpty());
  ASSERT_EQ(capture.ranks[0].collectives.size(), 1u);
  ASSERT_EQ(capture.ranks[1].collectives.size(), 1u);
  EXPECT_EQ(capture.ranks[0].collectives[0].group, capture.ranks[1].collectives[0].group);
  EXPECT_EQ(capture.ranks[1].collectives[0].source, capture::MatchSource::kOrder);
  EXPECT_THAT(Notes(capture), HasSubstr("matched by order"));
}

TEST_F(RecordedCaptureTest, FileNamesGiveTheRanksWithoutAManifest) {
  WriteTraces({Gzip(OneRankTrace()), Gzip(OneRankTrace())});
  ASSERT_TRUE(writer_->Close(manifest_).ok());
  fs::remove(Folder() + "/records/manifest.json");
  const auto capture = LoadCapture(Folder(), {});
  ASSERT_TRUE(capture.ok()) << capture.status();
  ASSERT_EQ(capture->ranks.size(), 2u);
  EXPECT_EQ(capture->ranks[1].rank, RankId(1));
}

TEST_F(RecordedCaptureTest, IgnoresAnUnfinishedFile) {
  writer_ = *capture::RecordsWriter::Create(Folder(), manifest_);
  ASSERT_TRUE(writer_->AppendTrace({RankId(0), 0}, 0, "abc").ok());
  EXPECT_FALSE(writer_->AppendTrace({RankId(0), 0}, 7, "x").ok());
  EXPECT_FALSE(writer_->FinishTrace({RankId(0), 0}).ok()) << "it ended with the piece that did not fit";
  ASSERT_TRUE(writer_->Close(manifest_).ok());
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(Folder() + "/records")) ++files;
  EXPECT_EQ(files, 1u) << "the manifest";
}

TEST_F(RecordedCaptureTest, LeavesOutTracesOfOtherIterationsByName) {
  capture::ManifestProcess third = manifest_.processes[1];
  third.rank = RankId(2);
  third.pid = 102;
  manifest_.processes.push_back(third);
  const std::string later =
      Document({KernelRow("1000", "10")}, R"("baseTimeNanoseconds": 1790000010000000000)");
  // All profilers had one window, so a rank with few rows in it still counts.
  WriteTraces({Gzip(OneRankTrace()), Gzip(OneRankTrace()), Gzip(later)});
  EXPECT_EQ(Load().ranks.size(), 3u);
  fs::remove_all(Folder());
  for (size_t p = 0; p < 3; ++p)
    manifest_.processes[p].window.start = HostTime(kT0 + static_cast<int64_t>(p));
  WriteTraces({Gzip(OneRankTrace()), Gzip(OneRankTrace()), Gzip(later)});
  const capture::Capture capture = Load();
  EXPECT_EQ(capture.ranks.size(), 2u);
  EXPECT_THAT(capture.missing_ranks, ElementsAre(RankId(2)));
  EXPECT_THAT(absl::StrJoin(capture.notes, "; "),
              HasSubstr("kineto.json.gz has other steps than most ranks and is left out"));
}

}  // namespace
}  // namespace lockstep::formats
