// Several recordings of one rank in a folder, as torch.profiler.tensorboard_trace_handler writes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "formats/input/input_files_fixture.h"
#include "formats/input/read_input.h"
#include "formats/kineto/kineto_text.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Seconds after 2026-03-01 12:00:00 UTC.
constexpr int64_t kNoonUs = 1772366400000000;
constexpr int64_t kSecondUs = 1000000;

SpanChoice Number(int number) { return {SpanChoice::Kind::kNumber, number}; }

class InputSpansTest : public InputFilesTest {
 protected:
  // Writes a trace of a rank from `begin` seconds on, of one second. Its kernel has the name `kernel`.
  std::string WriteSpan(const std::string& name, int rank, int64_t begin, const std::string& kernel,
                        int pid = 4242, int world = 2) const {
    const int64_t us = kNoonUs + begin * kSecondUs;
    std::string host = HostRow("user_annotation", "ProfilerStep#1", us, kSecondUs);
    const std::string usual = "\"pid\": 4242";
    host.replace(host.find(usual), usual.size(), absl::StrCat("\"pid\": ", pid));
    return Write(name, Document({host, KernelRow(std::to_string(us + 10), "5", kernel)},
                                absl::StrCat("\"distributedInfo\": {\"rank\": ", rank,
                                             ", \"world_size\": ", world, "}, ")));
  }
  absl::StatusOr<capture::Capture> Read(SpanChoice span = {}) {
    note_.clear();
    return ReadInput(std::vector<std::string>{folder_.string()},
                     {.span = span, .chose_span = [this](const std::string& note) { note_ = note; }});
  }
  std::string Sentence(SpanChoice span = {}) {
    const auto capture = Read(span);
    EXPECT_FALSE(capture.ok());
    EXPECT_EQ(capture.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(capture.status().message());
  }
  // Returns the kernels' names, rank by rank.
  std::vector<std::string> Kernels(SpanChoice span = {}) {
    const auto capture = Read(span);
    EXPECT_TRUE(capture.ok()) << capture.status();
    std::vector<std::string> names;
    if (!capture.ok()) return names;
    for (const capture::RankData& rank : capture->ranks) {
      for (const capture::DeviceActivity& a : rank.activities) names.emplace_back(capture->Text(a.name));
    }
    return names;
  }
  // Three spans of two ranks. The numbers in the names are times of writing, and rank 1 wrote its first late.
  void WriteThreeSpans() const {
    WriteSpan("n1_70.1000.pt.trace.json", 0, 5, "first0");
    WriteSpan("n1_70.3000.pt.trace.json", 0, 65, "second0");
    WriteSpan("n1_70.4000.pt.trace.json", 0, 125, "third0");
    WriteSpan("n1_71.9000.pt.trace.json", 1, 5, "first1");
    WriteSpan("n1_71.3000.pt.trace.json", 1, 65, "second1");
    WriteSpan("n1_71.4000.pt.trace.json", 1, 125, "third1");
  }
  std::string note_;
};

TEST_F(InputSpansTest, ReadsTheLastSpanThatAllRanksHave) {
  WriteThreeSpans();
  EXPECT_THAT(Kernels(), ElementsAre("third0", "third1"));
  EXPECT_EQ(note_,
            "3 spans found; reading the last that all ranks have, span 3, begin 2026-03-01 12:02:05 UTC; "
            "choose with "
            "--span 1..3");
  const auto capture = Read();
  ASSERT_TRUE(capture.ok());
  EXPECT_THAT(capture->notes, Contains(note_));
  WriteSpan("n1_70.5000.pt.trace.json", 0, 185, "fourth0");
  EXPECT_THAT(Kernels(), ElementsAre("third0", "third1"));
  EXPECT_THAT(note_, HasSubstr("4 spans found; reading the last that all ranks have, span 3"));
  EXPECT_THAT(Kernels({SpanChoice::Kind::kLast, 0}), ElementsAre("fourth0"));
  EXPECT_THAT(note_, HasSubstr("span 4, begin 2026-03-01 12:03:05 UTC, which has 1 of 2 ranks"));
}

TEST_F(InputSpansTest, ReadsTheChosenSpanByTimeAndNotByName) {
  WriteThreeSpans();
  EXPECT_THAT(Kernels(Number(1)), ElementsAre("first0", "first1"));
  EXPECT_THAT(note_, StartsWith("3 spans found; reading span 1, begin 2026-03-01 12:00:05 UTC"));
  EXPECT_THAT(Kernels(Number(2)), ElementsAre("second0", "second1"));
}

TEST_F(InputSpansTest, ASpanThatDoesNotExistIsAnErrorWithTheList) {
  WriteThreeSpans();
  for (const int number : {0, 4}) {
    EXPECT_THAT(Sentence(Number(number)),
                AllOf(HasSubstr("the traces have 3 spans"), HasSubstr("2 begins 2026-03-01 12:01:05 UTC")));
  }
}

TEST_F(InputSpansTest, InputWithOneSpanTakesOnlyNumberOne) {
  WriteSpan("a.json", 0, 5, "only0");
  EXPECT_THAT(Kernels(Number(1)), ElementsAre("only0"));
  EXPECT_EQ(note_, "");
  EXPECT_THAT(Sentence(Number(2)), HasSubstr("this input has 1 span"));
}

TEST_F(InputSpansTest, OffsetClocksDoNotMixSpans) {
  for (int span = 0; span < 3; ++span) {
    WriteSpan(absl::StrCat("a", span, ".json"), 0, 60 * span, absl::StrCat("zero", span));
    WriteSpan(absl::StrCat("b", span, ".json"), 1, 60 * span + 20, absl::StrCat("one", span));
  }
  EXPECT_THAT(Kernels(Number(1)), ElementsAre("zero0", "one0"));
  EXPECT_THAT(Kernels(Number(3)), ElementsAre("zero2", "one2"));
}

TEST_F(InputSpansTest, AProcessWithoutARankIsOneRankInAllSpans) {
  const auto row = [](int64_t ts, const char* name) { return KernelRow(std::to_string(ts), "5", name); };
  Write("n1_70.1000.pt.trace.json", Document({row(1000, "a1")}));
  Write("n1_70.2000.pt.trace.json", Document({row(9000, "a2")}));
  Write("n1_71.1000.pt.trace.json", Document({row(1001, "b1")}));
  Write("n1_71.2000.pt.trace.json", Document({row(9001, "b2")}));
  EXPECT_THAT(Kernels(), ElementsAre("a2", "b2"));
  const auto capture = Read();
  ASSERT_TRUE(capture.ok());
  EXPECT_EQ(capture->ranks[1].rank, RankId(1));
}

TEST_F(InputSpansTest, FoldersOfIterationsAreSpansOfOneProcess) {
  for (const int iteration : {10, 20}) {
    for (const int rank : {0, 1}) {
      WriteSpan(absl::StrCat("iteration_", iteration, "/rank", rank, "_trace.json"), rank, iteration,
                absl::StrCat("it", iteration), 70 + rank);
    }
  }
  EXPECT_THAT(Kernels(), ElementsAre("it20", "it20"));
}

TEST_F(InputSpansTest, ProcessesInDifferentFoldersAreTwoJobsUnlessChosen) {
  WriteSpan("run1/rank0.json", 0, 0, "old", 70);
  WriteSpan("run2/rank0.json", 0, 60, "new", 80);
  EXPECT_THAT(Sentence(), AllOf(HasSubstr("are of two jobs"), HasSubstr("processes 70 and 80")));
  EXPECT_THAT(Kernels(Number(2)), ElementsAre("new"));
  fs::rename(folder_ / "run1" / "rank0.json", folder_ / "run2" / "rank0_old.json");
  EXPECT_THAT(Kernels(), ElementsAre("new")) << "runs into one folder, as TensorBoard shows them";
}

TEST_F(InputSpansTest, JobsAtTheSameTimeAreAnError) {
  WriteSpan("run1/rank0.json", 0, 0, "a");
  WriteSpan("run2/rank0.json", 0, 0, "b");
  EXPECT_THAT(Sentence(), AllOf(HasSubstr("rank 0 at the same time"), HasSubstr("give the folder of one")));
}

TEST_F(InputSpansTest, JobsOfDifferentSizesAreAnError) {
  WriteSpan("rank0.json", 0, 0, "a", 70, 2);
  WriteSpan("rank1.json", 1, 0, "b", 71, 4);
  EXPECT_THAT(Sentence(), AllOf(HasSubstr("a job with 2 ranks"), HasSubstr("one with 4")));
}

}  // namespace
}  // namespace lockstep::formats
