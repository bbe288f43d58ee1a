#include "formats/input/read_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "formats/common/read_options.h"
#include "formats/input/input_files_fixture.h"
#include "formats/kineto/kineto_text.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReadInputTest : public InputFilesTest {
 protected:
  std::string WriteGzip(const std::string& name, const std::string& content) {
    return Write(name, Gzip(content));
  }
  static std::string Rank(int rank, int world) {
    return R"("distributedInfo": {"backend": "nccl", "rank": )" + std::to_string(rank) +
           R"(, "world_size": )" + std::to_string(world) + "}, ";
  }
  static absl::StatusOr<capture::Capture> Read(const std::vector<std::string>& paths) {
    return ReadInput(paths, {});
  }
  absl::StatusOr<capture::Capture> ReadFolder() { return Read({folder_.string()}); }
  static std::string Sentence(const absl::StatusOr<capture::Capture>& capture) {
    EXPECT_FALSE(capture.ok());
    EXPECT_EQ(capture.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(capture.status().message());
  }
  static std::vector<int> Ranks(const capture::Capture& capture) {
    std::vector<int> ranks;
    for (const capture::RankData& r : capture.ranks) ranks.push_back(r.rank.value());
    return ranks;
  }

  const std::vector<std::string> rows_ = {KernelRow("1", "1"),
                                          KernelRow("3", "1", "ncclDevKernel_AllReduce_Sum_f32(x)")};
};

TEST_F(ReadInputTest, RanksComeFromTheTraceTheNameOrThePosition) {
  Write("a.json", Document(rows_, Rank(5, 8)));
  Write("b_rank-7.json", Document(rows_));
  WriteGzip("worker3.pt.trace.json.gz", Document(rows_));
  const auto capture = ReadFolder();
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_THAT(Ranks(*capture), ElementsAre(3, 5, 7));
  EXPECT_EQ(capture->ranks[0].rank_source, "file name");
  EXPECT_EQ(capture->ranks[1].rank_source, "distributedInfo");
  EXPECT_EQ(capture->world_size, 8);
  EXPECT_THAT(capture->missing_ranks, ElementsAre(RankId(0), RankId(1), RankId(2), RankId(4), RankId(6)));
  EXPECT_THAT(capture->notes, IsEmpty());
  EXPECT_EQ(capture->id, folder_.filename().string());
}

TEST_F(ReadInputTest, NumbersRanksByNaturalOrderWithANote) {
  for (const char* name : {"t10.json", "t9.json", "t1.json"})
    Write(name, Document({KernelRow(std::string(name).substr(1, 1), "1")}));
  const auto capture = ReadFolder();
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_THAT(capture->ranks[1].source_file, HasSubstr("t9.json"));
  EXPECT_THAT(capture->ranks[2].source_file, HasSubstr("t10.json"));
  ASSERT_EQ(capture->notes.size(), 1u);
  EXPECT_THAT(capture->notes[0], HasSubstr("3 of 3"));
}

TEST_F(ReadInputTest, RefusesTwoFilesOfOneRankByName) {
  const std::string a = Write("a.json", Document(rows_, Rank(2, 4)));
  const std::string b = Write("b.json", Document(rows_, Rank(2, 4)));
  EXPECT_THAT(Sentence(ReadFolder()), AllOf(HasSubstr(a), HasSubstr(b), HasSubstr("rank 2")));
}

TEST_F(ReadInputTest, RanksOfOneHostShareOneClock) {
  Write("n1_0.1.pt.trace.json", Document(rows_, Rank(0, 4)));
  Write("n1_1.1.pt.trace.json", Document(rows_, Rank(1, 4)));
  Write("x.json", Document(rows_, Rank(2, 4) + R"("host_name": "n1", )"));
  Write("y.json", Document(rows_, Rank(3, 4)));
  const auto capture = ReadFolder();
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_EQ(capture->ranks[0].host, capture->ranks[1].host);
  EXPECT_EQ(capture->ranks[0].host, capture->ranks[2].host);
  EXPECT_NE(capture->ranks[0].host, capture->ranks[3].host);
  ASSERT_EQ(capture->hosts.size(), 2u);
  EXPECT_EQ(capture->hosts[0].name, "n1");
}

TEST_F(ReadInputTest, EveryFileHasItsOwnBaseTime) {
  Write("a.json", Document(rows_, Rank(0, 2) + R"("baseTimeNanoseconds": 1000000000000000000, )"));
  Write("b.json", Document(rows_, Rank(1, 2), R"(, "baseTimeNanoseconds": 1000000000000002000)"));
  const auto capture = ReadFolder();
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_EQ(capture->ranks[0].activities[0].start, HostTime(1000000000000001000));
  EXPECT_EQ(capture->ranks[1].activities[0].start, HostTime(1000000000000003000));
  EXPECT_EQ(capture->ranks[0].window.start, HostTime(1000000000000001000));
}

TEST_F(ReadInputTest, NamesOfAllFilesShareOneTable) {
  Write("a.json", Document({KernelRow("1", "1", "only_a"), KernelRow("2", "1", "both")}, Rank(0, 2)));
  Write("b.json", Document({KernelRow("1", "1", "both"), KernelRow("2", "1", "only_b")}, Rank(1, 2)));
  const auto capture = ReadFolder();
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_EQ(capture->Text(capture->ranks[1].activities[1].name), "only_b");
  EXPECT_EQ(capture->ranks[0].activities[1].name, capture->ranks[1].activities[0].name);
}

TEST_F(ReadInputTest, LeavesOutUnrelatedFilesWithANote) {
  Write("a.json", Document(rows_, Rank(0, 1)));
  Write("report.json", R"({"schema": "lockstep.report/1", "ranks": []})");
  Write("notes.txt", "nothing");
  Write("broken.json", "]]]");
  const auto capture = ReadFolder();
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_THAT(Ranks(*capture), ElementsAre(0));
  EXPECT_THAT(capture->notes, ElementsAre(HasSubstr("broken.json is not JSON"),
                                          HasSubstr("report.json is JSON but not a trace")));
}

TEST_F(ReadInputTest, UnusableInputGivesOneSentence) {
  EXPECT_THAT(Sentence(Read({})), HasSubstr("nothing to read"));
  EXPECT_THAT(Sentence(Read({(folder_ / "none").string()})), HasSubstr("none does not exist"));
  EXPECT_THAT(Sentence(ReadFolder()),
              AllOf(HasSubstr(folder_.string()), HasSubstr("holds no capture, no .json")));
  const std::string broken = Write("broken.json", "this is no json");
  EXPECT_THAT(Sentence(Read({broken})), HasSubstr("broken.json is not JSON"));
  EXPECT_THAT(Sentence(ReadFolder()), HasSubstr("broken.json is not JSON")) << "the only file of a folder";
  EXPECT_THAT(Sentence(Read({Write("empty.json", "")})), HasSubstr("empty.json is not JSON"));
  EXPECT_THAT(Sentence(Read({Write("config.json", "{\"a\": 1}")})), HasSubstr("no \"traceEvents\""));
  EXPECT_THAT(Sentence(Read({Write("cpu.json", Document({HostRow("cpu_op", "aten::mm", 1, 1)}))})),
              HasSubstr("no device activity"));
  EXPECT_THAT(Sentence(ReadFolder()), HasSubstr("none of the 4 files can be used"));
}

TEST_F(ReadInputTest, LeavesOutATruncatedTraceUnlessItIsAlone) {
  std::vector<std::string> many;
  for (int i = 0; i < 3000; ++i) many.push_back(KernelRow(std::to_string(10 * i), std::to_string(i % 7)));
  WriteGzip("rank0.json.gz", Document(many));
  const std::string cut = WriteGzip("rank1.json.gz", Document(many));
  fs::resize_file(cut, fs::file_size(cut) / 2);
  const auto both = ReadFolder();
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_THAT(Ranks(*both), ElementsAre(0));
  EXPECT_THAT(both->notes, ElementsAre(HasSubstr("rank1.json.gz is damaged (the gzip data is truncated)")));
  const auto alone = Read({cut});
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_GT(alone->ranks[0].activities.size(), 1000u);
  ASSERT_EQ(alone->ranks[0].losses.size(), 1u);
  EXPECT_EQ(alone->ranks[0].losses[0].stage, "import");
  EXPECT_GE(alone->ranks[0].losses[0].records, 1u);
  fs::resize_file(cut, 15);
  EXPECT_THAT(Sentence(Read({cut})), HasSubstr("the gzip data is truncated"));
}

TEST_F(ReadInputTest, UnreadableRowsAreALossWithTheirPosition) {
  const std::string path = Write(
      "rank0.json",
      Document({KernelRow("1", "1"), "{\"ph\": \"X\", \"cat\": \"kernel\" \"oops\"}", KernelRow("2", "1")}));
  const auto capture = Read({path});
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_EQ(capture->ranks[0].activities.size(), 2u);
  ASSERT_EQ(capture->ranks[0].losses.size(), 1u);
  EXPECT_EQ(capture->ranks[0].losses[0].records, 1u);
  EXPECT_THAT(capture->ranks[0].losses[0].reason, HasSubstr("at byte "));
}

TEST_F(ReadInputTest, SeveralDevicesOfOneProcessAreSeveralEntriesOfOneRank) {
  const auto on = [](int device, int ts, int correlation) {
    return R"({"ph": "X", "cat": "kernel", "name": "k", "pid": )" + std::to_string(device) +
           R"(, "tid": 7, "ts": )" + std::to_string(ts) +
           R"(, "dur": 1, "args": {"stream": 7, "correlation": )" + std::to_string(correlation) + "}}";
  };
  const std::string path =
      Write("rank0.json", Document({on(1, 5, 21), on(0, 3, 20),
                                    HostRow("cuda_runtime", "cudaLaunchKernel", 1, 1, "\"correlation\": 20"),
                                    HostRow("cuda_runtime", "cudaLaunchKernel", 2, 1, "\"correlation\": 21"),
                                    HostRow("user_annotation", "ProfilerStep#1", 0, 9)}));
  const auto capture = Read({path});
  ASSERT_TRUE(capture.ok()) << capture.status();
  ASSERT_EQ(capture->ranks.size(), 2u);
  EXPECT_EQ(capture->ranks[0].device, DeviceId(0));
  EXPECT_EQ(capture->ranks[0].api_calls.size(), 1u);
  EXPECT_EQ(capture->ranks[1].api_calls[0].correlation, CorrelationId(21));
  EXPECT_EQ(capture->ranks[1].ranges.size(), 1u);
}

TEST_F(ReadInputTest, RangesHaveTheirDepth) {
  const std::string path =
      Write("rank0.json",
            Document({KernelRow("1", "1"), HostRow("user_annotation", "inner", 10, 5),
                      HostRow("user_annotation", "outer", 10, 20), HostRow("user_annotation", "next", 30, 5),
                      HostRow("user_annotation", "same", 10, 5)}));
  const auto capture = Read({path});
  ASSERT_TRUE(capture.ok()) << capture.status();
  std::vector<uint32_t> depths;
  for (const capture::HostRange& r : capture->ranks[0].ranges) depths.push_back(r.depth);
  EXPECT_THAT(depths, ElementsAre(0, 1, 2, 0));
}

TEST_F(ReadInputTest, ProgressEndsAtTheSizeOfAllFiles) {
  std::vector<std::string> many(20000, KernelRow("1", "1"));
  const std::string a = Write("rank0.json", Document(many));
  const std::string b = Write("rank1.json", Document(many));
  std::atomic<uint64_t> last{0};
  std::atomic<uint64_t> of{0};
  ReadOptions options;
  options.progress = [&](uint64_t done, uint64_t total) {
    uint64_t seen = last;
    while (seen < done && !last.compare_exchange_weak(seen, done)) {
    }
    of = total;
  };
  const std::vector<std::string> paths = {a, b};
  ASSERT_TRUE(ReadInput(paths, options).ok());
  EXPECT_EQ(of, fs::file_size(a) + fs::file_size(b));
  EXPECT_EQ(last, of);
}

TEST_F(ReadInputTest, CountsAndNamesHardwareCounters) {
  // The form of the rows that libkineto's range profiler writes.
  const std::string range =
      R"({"ph": "X", "cat": "cuda_profiler_range", "name": "gemm", "pid": 0, "tid": 0, "ts": 5, "dur": 2, )"
      R"("args": {"External id": 0, "smsp__inst_executed.sum": 12, "dram__bytes_read.sum": 1.5e3}})";
  Write("rank0.json", Document({KernelRow("1", "1"), range, range}));
  Write("rank1.json", Document({KernelRow("1", "1"), range}));
  const auto capture = ReadFolder();
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_EQ(capture->ranks[0].activities.size(), 1u);
  EXPECT_THAT(capture->notes, ElementsAre("3 ranges with hardware counters (cuda_profiler_range: "
                                          "dram__bytes_read.sum, smsp__inst_executed.sum) are not analysed"));
  const std::string only = Write("only.json", Document({range}));
  EXPECT_THAT(Sentence(Read({only})),
              AllOf(HasSubstr("no device activity but 1 range with hardware counters"),
                    HasSubstr("without counters")));
}

TEST_F(ReadInputTest, RefusesACaptureBesideOtherInput) {
  fs::create_directories(folder_ / "capture" / "records");
  const std::string trace = Write("rank0.json", Document(rows_));
  EXPECT_THAT(Sentence(Read({(folder_ / "capture").string(), trace})), HasSubstr("give it alone"));
}

}  // namespace
}  // namespace lockstep::formats
