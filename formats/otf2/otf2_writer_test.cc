// Checks the archive of WriteOtf2() through the official library's reader.
#include "formats/otf2/otf2_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "capture/model/timeline_builder_fixture.h"
#include "formats/common/write_progress.h"
#include "formats/input/read_input.h"
#include "formats/otf2/otf2_reader_fixture.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;
using capture::CollectiveOp;
using capture::TimelineBuilder;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Otf2WriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-otf2-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  absl::Status Write(const capture::Capture& capture, const std::string& to,
                     const WriteProgress& progress = {}) const {
    const capture::Matches matches = capture::Match(capture);
    return WriteOtf2(capture, matches, capture::EstimateClocks(capture, matches), to, progress);
  }
  Otf2Contents WriteAndRead(const capture::Capture& capture) const {
    const absl::Status written = Write(capture, folder_ + "/otf2");
    EXPECT_TRUE(written.ok()) << written;
    return ReadOtf2(folder_ + "/otf2");
  }

  std::string folder_;
};

TEST_F(Otf2WriterTest, StreamsAndThreadsAreLocationsOfTheirRank) {
  TimelineBuilder t;
  t.Rank(0).Step(1, 0, 100).Range("forward", 10, 80).Kernel("gemm", 30, 20, 7, 20).Copy(4096, 60, 5);
  t.Rank(1, "host1").Kernel("gemm", 5, 20, 7);
  const Otf2Contents read = WriteAndRead(t.Build());
  EXPECT_EQ(read.ticks_per_second, 1000000000u);
  EXPECT_EQ(read.realtime, static_cast<uint64_t>(TimelineBuilder::kEpochNs));
  EXPECT_EQ(read.length, 100000u);
  EXPECT_THAT(read.tree, Contains("process rank 0 on host0"));
  EXPECT_THAT(read.tree, Contains("device rank 0 GPU 0 on host0 of rank 0"));
  EXPECT_THAT(read.tree, Contains("process rank 1 on host1"));
  EXPECT_THAT(read.locations.at("rank 0 GPU 0 / stream 7"),
              ElementsAre("30000 enter gemm correlation=1", "50000 leave gemm"));
  const auto& copies = read.locations.at("rank 0 GPU 0 / stream 9");
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_THAT(copies[0], HasSubstr("60000 enter Memcpy"));
  EXPECT_THAT(copies[0], HasSubstr("bytes=4096"));
  // The call is inside the range, and the range inside the step.
  const auto& host = read.locations.at("rank 0 / thread 1");
  ASSERT_EQ(host.size(), 6u);
  EXPECT_THAT(host[0], HasSubstr("0 enter "));
  EXPECT_EQ(host[1], "10000 enter forward");
  EXPECT_THAT(host[2], HasSubstr("20000 enter cudaLaunchKernel correlation=1"));
  EXPECT_EQ(host[4], "90000 leave forward");
  EXPECT_THAT(read.locations.at("rank 1 / host: nothing recorded"), IsEmpty());
  // gemm is a function of CUDA, forward is code of the user; the copy moves data.
  EXPECT_EQ(read.regions.at("gemm"), "role 1 paradigm 5 ");
  EXPECT_EQ(read.regions.at("forward"), "role 4 paradigm 1 ");
}

TEST_F(Otf2WriterTest, OverlappingWorkGetsSeparateLanes) {
  TimelineBuilder t;
  t.Rank(0).Kernel("a", 0, 20).Kernel("b", 10, 20).Kernel("c", 20, 5).Range("x", 0, 50).Range("y", 40, 30);
  const Otf2Contents read = WriteAndRead(t.Build());
  EXPECT_THAT(read.locations.at("rank 0 GPU 0 / stream 7"),
              ElementsAre("0 enter a correlation=1", "20000 leave a", "20000 enter c correlation=3",
                          "25000 leave c"));
  EXPECT_THAT(read.locations.at("rank 0 GPU 0 / stream 7 (lane 2)"),
              ElementsAre("10000 enter b correlation=2", "30000 leave b"));
  EXPECT_THAT(read.locations.at("rank 0 / thread 1"), ElementsAre("0 enter x", "50000 leave x"));
  EXPECT_THAT(read.locations.at("rank 0 / thread 1 (lane 2)"), ElementsAre("40000 enter y", "70000 leave y"));
}

TEST_F(Otf2WriterTest, CollectivesHaveTheirCommunicatorOperationAndBytes) {
  TimelineBuilder t;
  const uint32_t tp = t.Group("tp", {1, 0});
  for (int32_t rank = 0; rank < 2; ++rank) {
    t.Rank(rank)
        .Communication({.op = CollectiveOp::kAllGather,
                        .group = tp,
                        .source = capture::MatchSource::kNcclSequence,
                        .sequence = 4,
                        .bytes = 100},
                       0, 10)
        .Communication({.op = CollectiveOp::kBroadcast, .group = tp, .bytes = 64, .root = 0}, 20, 10)
        .Communication({.op = CollectiveOp::kAllReduce, .group = tp}, 40, 10)
        .Communication({.op = CollectiveOp::kUnknown, .group = tp}, 60, 10);
  }
  const Otf2Contents read = WriteAndRead(t.Build());
  // Members have the order of their rank in the group, not in the world.
  EXPECT_THAT(read.communicators.at("tp"),
              ElementsAre("rank 1 GPU 0 / stream 15", "rank 0 GPU 0 / stream 15"));
  const auto& events = read.locations.at("rank 0 GPU 0 / stream 15");
  EXPECT_THAT(events, Contains("10000 end op=6 comm=tp root=- sent=100 received=200 bytes=100 sequence=4"));
  EXPECT_THAT(events, Contains("30000 end op=1 comm=tp root=0 sent=0 received=64 bytes=64"));
  EXPECT_THAT(read.locations.at("rank 1 GPU 0 / stream 15"),
              Contains("30000 end op=1 comm=tp root=0 sent=64 received=0 bytes=64"));
  EXPECT_THAT(events, Contains("50000 end op=11 comm=tp root=- sent=0 received=0"))
      << "unknown: no attribute";
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](const std::string& e) { return e.find(" end ") != std::string::npos; }),
            3);
}

TEST_F(Otf2WriterTest, WritesMessagesWithBothEndsRecorded) {
  TimelineBuilder t;
  const uint32_t pp = t.Group("pp", {0, 1});
  t.Rank(0).Communication({.op = CollectiveOp::kSend, .group = pp, .bytes = 4096, .peer = 1}, 0, 10);
  t.Rank(1).Communication({.op = CollectiveOp::kReceive, .group = pp, .bytes = 4096, .peer = 0}, 2, 9);
  t.Rank(0).Communication({.op = CollectiveOp::kReceive, .group = pp, .bytes = 8, .peer = 1}, 500, 10);
  const Otf2Contents read = WriteAndRead(t.Build());
  EXPECT_THAT(read.locations.at("rank 0 GPU 0 / stream 15"), Contains("0 send to=1 comm=pp bytes=4096"));
  EXPECT_THAT(read.locations.at("rank 1 GPU 0 / stream 15"),
              Contains("11000 receive from=0 comm=pp bytes=4096"));
  for (const std::string& e : read.locations.at("rank 0 GPU 0 / stream 15"))
    EXPECT_THAT(e, Not(HasSubstr("receive"))) << "it was not sent";
}

TEST_F(Otf2WriterTest, WritesLossesAtTheirProcess) {
  TimelineBuilder t;
  t.Rank(0)
      .Kernel("gemm", 0, 10)
      .data()
      .losses.push_back({.stage = "ring", .kind = "kernel", .records = 3, .reason = "full"});
  const Otf2Contents read = WriteAndRead(t.Build());
  EXPECT_THAT(read.tree, Contains("rank 0 LOCKSTEP::LOST::ring::kernel = 3 records: full"));
}

// Compares every kind of row with the library's output when the format was defined.
TEST_F(Otf2WriterTest, EveryStatementEqualsTheGoldenFile) {
  const std::vector<std::string> paths = {LOCKSTEP_SOURCE_DIR
                                          "/tests/golden/timeline/every_statement_v1.timeline"};
  const auto capture = ReadInput(paths, {});
  ASSERT_TRUE(capture.ok()) << capture.status();
  const Otf2Contents read = WriteAndRead(*capture);
  std::string text;
  for (const std::string& line : read.tree) absl::StrAppend(&text, line, "\n");
  for (const auto& c : read.communicators) {
    for (const std::string& member : c.second)
      absl::StrAppend(&text, "communicator ", c.first, ": ", member, "\n");
  }
  for (const auto& region : read.regions)
    absl::StrAppend(&text, "region ", region.first, ": ", region.second, "\n");
  for (const auto& location : read.locations) {
    absl::StrAppend(&text, location.first, "\n");
    for (const std::string& event : location.second) absl::StrAppend(&text, "  ", event, "\n");
  }
  std::ostringstream golden;
  golden << std::ifstream(LOCKSTEP_SOURCE_DIR "/tests/golden/otf2/every_statement.txt").rdbuf();
  if (golden.str() == text) return;
  std::ofstream("every_statement.txt.actual") << text;
  ADD_FAILURE() << "differs from tests/golden/otf2/every_statement.txt; what came out is in "
                   "./every_statement.txt.actual";
}

TEST_F(Otf2WriterTest, ReplacesOnlyAnArchiveOfItsOwn) {
  TimelineBuilder t;
  t.Rank(0).Kernel("gemm", 0, 10);
  const capture::Capture capture = t.Build();
  const std::string to = folder_ + "/otf2";
  uint64_t last = 0;
  EXPECT_TRUE(Write(capture, to, [&](uint64_t done, uint64_t total) {
                last = total == 0 ? 0 : 100 * done / total;
              }).ok());
  EXPECT_EQ(last, 100u);
  EXPECT_TRUE(Write(capture, to).ok()) << "an older archive is replaced";
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1)
      << "nothing is left over";
  // An archive that Score-P recorded cannot be made again.
  fs::create_directory(folder_ + "/scorep");
  std::ofstream(folder_ + "/scorep/traces.otf2") << "x";
  EXPECT_EQ(Write(capture, folder_ + "/scorep").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(folder_ + "/scorep/traces.otf2"));
  std::ofstream(folder_ + "/mine.txt") << "x";
  const absl::Status refused = Write(capture, folder_);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(folder_ + "/mine.txt"));
  const absl::Status impossible = Write(capture, folder_ + "/mine.txt/below/otf2");
  EXPECT_FALSE(impossible.ok());
  EXPECT_THAT(std::string(impossible.message()), HasSubstr(folder_ + "/mine.txt/below"));
}

TEST_F(Otf2WriterTest, AcceptsAnyNamesAndDecreasingStamps) {
  TimelineBuilder t;
  t.Rank(0)
      .Kernel(std::string_view("a\0b\xFF", 4), 0, 10)
      .Kernel("late", 20, -5)
      .Kernel("zero", 30, 0)
      .Kernel("zero", 30, 0);
  const Otf2Contents read = WriteAndRead(t.Build());
  EXPECT_EQ(read.regions.count("a?b?"), 1u);
  EXPECT_EQ(read.events, 8u);
}

TEST_F(Otf2WriterTest, WritesACaptureWithoutRanks) {
  const Otf2Contents read = WriteAndRead(TimelineBuilder().Build());
  EXPECT_EQ(read.events, 0u);
}

}  // namespace
}  // namespace lockstep::formats
