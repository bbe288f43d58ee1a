#include "formats/timeline/timeline_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "capture/model/capture.h"

namespace lockstep::formats {
namespace {

using capture::Capture;
using capture::CollectiveOp;
using capture::MatchSource;
using capture::RankData;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kBase = 1'700'000'000'000'000'000;
constexpr std::string_view kHead =
    "lockstep-timeline 1\nhost n0\nhost n1\ngroup dp dp 0-1\nname gemm\nname ncclDevKernel_AllReduce\n";

absl::StatusOr<Capture> ReadTimeline(std::string_view text) {
  MemorySource source(text);
  return ReadTimeline(source, "job.timeline", nullptr);
}

std::string Refusal(std::string_view text) {
  auto capture = ReadTimeline(text);
  EXPECT_FALSE(capture.ok()) << text;
  if (capture.ok()) return "";
  EXPECT_EQ(capture.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(capture.status().message());
}

std::string Golden() {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/tests/golden/timeline/every_statement_v1.timeline",
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int64_t Offset(HostTime t) { return t.ns() - kBase; }

TEST(TimelineReader, ADashStandsForAnUnknownHostName) {
  auto capture = ReadTimeline("lockstep-timeline 1\nhost 7 -\nhost 8\nend\n");
  ASSERT_TRUE(capture.ok()) << capture.status();
  ASSERT_EQ(capture->hosts.size(), 2u);
  EXPECT_EQ(capture->hosts[0].name, "");
  EXPECT_EQ(capture->hosts[0].ShownName(), "7");
  EXPECT_EQ(capture->hosts[1].name, "8");
}

TEST(TimelineReader, ReadsTheGoldenFile) {
  auto capture = ReadTimeline(Golden());
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_EQ(capture->job, "llama 70b");
  EXPECT_EQ(capture->world_size, 4);
  EXPECT_FALSE(capture->live);
  EXPECT_THAT(capture->notes, ElementsAre("written by hand"));
  ASSERT_EQ(capture->hosts.size(), 2u);
  EXPECT_EQ(capture->hosts[0].name, "node-a");
  EXPECT_EQ(capture->hosts[1].name, "b.example");
  ASSERT_EQ(capture->hosts[0].exchanges.size(), 1u);
  EXPECT_EQ((capture->hosts[0].exchanges[0].t4 - capture->hosts[0].exchanges[0].t1).ns(), 110000);
  ASSERT_EQ(capture->groups.size(), 3u);
  EXPECT_THAT(capture->groups[1].members, ElementsAre(RankId(0), RankId(2)));
  EXPECT_EQ(capture->groups[2].size, 4);
  EXPECT_TRUE(capture->groups[2].members.empty());
  ASSERT_EQ(capture->ranks.size(), 3u);

  // A later statement may continue a rank. `base` is valid until the next one.
  EXPECT_EQ(capture->ranks[1].activities.size(), 2u);
  EXPECT_EQ(Offset(capture->ranks[1].activities[1].start), 1250000);
  EXPECT_EQ(Offset(capture->ranks[2].activities[0].start), 730000);
  EXPECT_EQ(capture->ranks[2].host, 1u);
}

TEST(TimelineReader, ReadsDeviceRowsOfTheGoldenFile) {
  auto capture = ReadTimeline(Golden());
  ASSERT_TRUE(capture.ok()) << capture.status();
  const RankData& zero = capture->ranks.at(0);
  EXPECT_EQ(zero.device.value(), 2u);
  EXPECT_EQ(zero.pid, 4711);
  EXPECT_EQ(zero.incarnation, 2u);
  EXPECT_EQ(zero.program, "train.py");
  EXPECT_EQ(zero.properties.name, "NVIDIA H100");
  EXPECT_EQ(zero.properties.sms, 132);
  EXPECT_EQ(zero.properties.compute_major, 9);
  EXPECT_EQ(Offset(zero.window.start), 0);
  EXPECT_EQ(Offset(zero.window.end), 2000000);

  ASSERT_EQ(zero.activities.size(), 7u);
  EXPECT_EQ(capture->Text(zero.activities[0].name), "gemm");
  EXPECT_EQ(Offset(zero.activities[0].start), 5000);
  EXPECT_EQ(Offset(zero.activities[0].end), 305000);
  EXPECT_EQ(zero.activities[0].correlation.value(), 1u);
  ASSERT_LT(zero.activities[0].detail, zero.kernel_details.size());
  EXPECT_EQ(zero.kernel_details[zero.activities[0].detail].grid[1], 2u);
  EXPECT_EQ(zero.kernel_details[zero.activities[0].detail].block[0], 256);
  EXPECT_EQ(zero.kernel_details[zero.activities[0].detail].registers, 168);
  EXPECT_EQ(zero.kernel_details[zero.activities[0].detail].static_shared_bytes, 49152u);
  EXPECT_EQ(zero.activities[1].detail, capture::kNone);

  ASSERT_EQ(zero.collectives.size(), 4u);
  EXPECT_EQ(zero.collectives[0].op, CollectiveOp::kAllReduce);
  EXPECT_EQ(zero.collectives[0].source, MatchSource::kNcclSequence);
  EXPECT_EQ(zero.collectives[0].sequence, 17);
  EXPECT_EQ(zero.collectives[0].bytes, 4194304);
  EXPECT_EQ(capture->Text(zero.collectives[0].datatype), "bf16");
  EXPECT_EQ(zero.collectives[1].op, CollectiveOp::kSend);
  EXPECT_EQ(zero.collectives[2].op, CollectiveOp::kReceive);
  EXPECT_EQ(zero.collectives[2].activity, zero.collectives[1].activity);
  EXPECT_EQ(zero.collectives[2].source, MatchSource::kGroupSequence);
  EXPECT_EQ(zero.collectives[2].peer, 1);
  EXPECT_EQ(zero.collectives[3].group, capture::kNone);
  EXPECT_EQ(zero.collectives[3].op, CollectiveOp::kUnknown);
  EXPECT_EQ(zero.collectives[3].source, MatchSource::kOrder);

  ASSERT_EQ(zero.copy_details.size(), 2u);
  EXPECT_EQ(zero.copy_details[0].bytes, 1048576u);
  EXPECT_EQ(zero.copy_details[0].copy_kind, 1);
  EXPECT_EQ(zero.activities[6].kind, capture::ActivityKind::kMemset);
}

TEST(TimelineReader, ReadsHostRowsOfTheGoldenFile) {
  auto capture = ReadTimeline(Golden());
  ASSERT_TRUE(capture.ok()) << capture.status();
  const RankData& zero = capture->ranks.at(0);
  ASSERT_EQ(zero.api_calls.size(), 2u);
  EXPECT_EQ(zero.api_calls[0].correlation.value(), 1u);
  EXPECT_TRUE(zero.api_calls[1].driver);
  EXPECT_EQ(zero.api_calls[1].cbid, 131u);
  ASSERT_EQ(zero.syncs.size(), 2u);
  EXPECT_EQ(zero.syncs[0].type, capture::SyncType::kStream);
  EXPECT_EQ(zero.syncs[0].stream.value(), 7u);
  EXPECT_EQ(zero.syncs[1].type, capture::SyncType::kStreamWaitEvent);
  EXPECT_EQ(zero.syncs[1].event, 3u);
  ASSERT_EQ(zero.event_records.size(), 1u);
  EXPECT_EQ(zero.event_records[0].event, 3u);
  EXPECT_EQ(zero.event_records[0].correlation.value(), 6u);
  ASSERT_EQ(zero.ranges.size(), 4u);
  EXPECT_EQ(capture->Text(zero.ranges[0].name), "ProfilerStep#41");
  EXPECT_EQ(zero.ranges[0].kind, capture::RangeKind::kStep);
  EXPECT_EQ(zero.ranges[1].depth, 1u);
  EXPECT_EQ(capture->Text(zero.ranges[2].domain), "train");
  EXPECT_TRUE(zero.ranges[2].end_unknown);
  EXPECT_EQ(zero.ranges[2].depth, 2u);
  EXPECT_EQ(zero.ranges[3].thread.value(), 7);
  ASSERT_EQ(zero.losses.size(), 1u);
  EXPECT_EQ(zero.losses[0].records, 12u);
  EXPECT_EQ(zero.losses[0].reason, "buffers full");
  ASSERT_EQ(zero.clocks.size(), 1u);
  EXPECT_EQ(zero.clocks[0].monotonic.ns(), 5000000000);
}

TEST(TimelineReader, NamesMissingRanksOfAFinishedTimeline) {
  auto capture = ReadTimeline(Golden());
  ASSERT_TRUE(capture.ok());
  capture::Finish(*capture);
  EXPECT_THAT(capture->missing_ranks, ElementsAre(RankId(3)));
  // A kernel of an unknown group gets the world as its group.
  EXPECT_EQ(capture->groups.back().key, "world");
}

TEST(TimelineReader, ReadsLinesAcrossBlockEdges) {
  std::string text(kHead);
  absl::StrAppend(&text, "rank 0 host=0\n");
  constexpr int kRows = 60000;
  for (int i = 0; i < kRows; ++i)
    absl::StrAppend(&text, "k 7 0 ", i * 10, " ", i % 9, i % 3 == 0 ? "\r\n" : "\n");
  absl::StrAppend(&text, "name ", std::string(700000, 'x'), "\nend\n");
  auto capture = ReadTimeline(text);
  ASSERT_TRUE(capture.ok()) << capture.status();
  ASSERT_EQ(capture->ranks[0].activities.size(), static_cast<size_t>(kRows));
  for (int i = 0; i < kRows; ++i) {
    ASSERT_EQ(capture->ranks[0].activities[static_cast<size_t>(i)].start.ns(), i * 10);
    ASSERT_EQ((capture->ranks[0].activities[static_cast<size_t>(i)].end -
               capture->ranks[0].activities[static_cast<size_t>(i)].start)
                  .ns(),
              i % 9);
  }
}

TEST(TimelineReader, RefusesAnotherVersionByName) {
  EXPECT_THAT(Refusal("lockstep-timeline 2\nend\n"),
              AllOf(HasSubstr("job.timeline line 1"), HasSubstr("version 2"), HasSubstr("reads 1")));
}

TEST(TimelineReader, RefusesATruncatedFile) {
  const std::string golden = Golden();
  for (size_t length = 0; length + 4 < golden.size(); ++length) {
    ASSERT_FALSE(ReadTimeline(std::string_view(golden).substr(0, length)).ok()) << length;
  }
  EXPECT_THAT(Refusal("lockstep-timeline 1\nhost a\n"), HasSubstr("without its last line"));
}

TEST(TimelineReader, EveryErrorIsOneSentenceWithItsLine) {
  const struct {
    std::string lines, says;
  } kMistakes[] = {
      {"k 7 0 0 1\n", "line 7: a row precedes the first rank"},
      {"rank 0 host=2\n", "host 2 is not known yet"},
      {"rank 0\n", "rank 0 has no host"},
      {"rank -1 host=0\n", "rank -1 is impossible"},
      {"rank 1048576 host=0\n", "rank 1048576 is impossible"},
      {"rank 0 host=0\nrank 0 host=1\n", "line 8: rank 0 was on another host above"},
      {"rank 0 host=0 color=3\n", "\"color\" is not a field"},
      {"rank 0 host=0\nk 7 5 0 1\n", "name 5 is not known yet"},
      {"rank 0 host=0\nk 7 0 0 -1\n", "a duration is negative"},
      {"rank 0 host=0\nk 7 0 0\n", "\"\" is not a number for a duration"},
      {"rank 0 host=0\nk 7 0 0 1 2\n", "\"2\" is not a field"},
      {"rank 0 host=0\nk 7 0 0 1 c=x\n", "\"x\" is not a number for c"},
      {"rank 0 host=0\nk 7 0 0 1 g=1,1\n", "not a size for g"},
      {"rank 0 host=0\nk 7 0 0 1 b=99999,1,1\n", "a block is larger"},
      {"rank 0 host=0\nk 7 0 9223372036854775807 1\n", "does not fit 64 bits"},
      {"rank 0 host=0\nk 7 0 99999999999999999999 1\n", "is not a number for a start"},
      {"rank 0 host=0\nc 7 1 0 1 3 all_reduce\n", "group 3 is not known yet"},
      {"rank 0 host=0\nc 7 1 0 1 0 gossip\n", "\"gossip\" is not an operation"},
      {"rank 0 host=0\nc 7 1 0 1 0 send peer=2\n", "outside of its range"},
      {"rank 0 host=0\n+ 0 send\n", "has no collective above it"},
      {"rank 0 host=0\nk 7 0 0 1\n+ 0 send\n", "has no collective above it"},
      {"rank 0 host=0\nm 7 0 0 1 sideways 3\n", "is not a kind of copy"},
      {"rank 0 host=0\nw never 0 1\n", "is not a kind of wait"},
      {"rank 0 host=0\nq 1\n", "\"q\" is not a row"},
      {"rank 0 host=0\ns -1 0 1\n", "a step's number is negative"},
      {"rank 0 host=0\nl moon - 1 why 0 1\n", "is not a stage of losses"},
      {"kernel 7 0 0 1\n", "\"kernel\" is not a statement"},
      {"name a%2\n", "is not a text for a name"},
      {"name\n", "is not a text for a name"},
      {"host n0\n", "is declared twice"},
      {"group dp again 0\n", "is declared twice"},
      {"group x x 0,0\n", "rank 0 is in the group twice"},
      {"group x x 0,1,\n", "is not a list of ranks"},
      {"group x x 3-1\n", "is not a list of ranks"},
      {"group x x 0-1 size=3\n", "a group of size 3 has 2 members"},
      {"group a a 0-1000000\ngroup b b 0-1048576\n", "is not a list of ranks"},
      {"exchange 9 1 2 3 4 5\n", "host 9 is not known yet"},
      {"world 0\n", "a world of 0 ranks"},
      {"end\nhost z\n", "text follows \"end\""},
      {"end now\n", "unexpected word"},
  };
  for (const auto& mistake : kMistakes) {
    EXPECT_THAT(Refusal(std::string(kHead) + mistake.lines + "end\n"), HasSubstr(mistake.says))
        << mistake.lines;
  }
}

TEST(TimelineReader, RefusesHugeGroupsBeforeAllocation) {
  std::string text(kHead);
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&text, "group g", i, " g 0-1048575\n");
  EXPECT_THAT(Refusal(text + "end\n"), HasSubstr("more members than any job"));
}

TEST(TimelineReader, RandomDamageGivesAnErrorOrAValidCapture) {
  const std::string golden = Golden();
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = golden;
    for (int defect = 0; defect < 2; ++defect) {
      const size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, random() % 20);
          break;
        default:
          damaged.insert(at, std::string(1 + random() % 3, "0 9-\n=,%"[random() % 8]));
      }
    }
    auto capture = ReadTimeline(damaged);
    if (!capture.ok()) {
      ASSERT_THAT(std::string(capture.status().message()), HasSubstr("job.timeline line "));
      continue;
    }
    capture::Finish(*capture);
    for (const RankData& rank : capture->ranks) {
      ASSERT_LT(rank.host, capture->hosts.size());
      for (const capture::DeviceActivity& a : rank.activities) ASSERT_GE(a.end, a.start);
      for (const capture::Collective& c : rank.collectives) {
        ASSERT_LT(c.activity, rank.activities.size());
        ASSERT_LT(c.group, capture->groups.size());
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::formats
