#include "scenario/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <string>

#include "scenario/generator.h"
#include "scenario/recorded.h"

namespace lockstep::scenario {
namespace {

using ::testing::HasSubstr;

std::string Text(const Scenario& s) {
  std::string text;
  EXPECT_TRUE(Write(s, [&](std::string_view part) {
                text += part;
                return absl::OkStatus();
              }).ok());
  return text;
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<Scenario> s = Parse(text, "f");
  EXPECT_FALSE(s.ok()) << text;
  return std::string(s.status().message());
}

constexpr char kRank[] = "rank host=a device=0\nstream id=7\nthread id=0\n";

TEST(Scenario, RoundTrips) {
  const Scenario s = *MakeTransformer({});
  const std::string text = Text(s);
  const absl::StatusOr<Scenario> back = Parse(text, "f");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(Text(*back), text);
  ASSERT_EQ(back->ranks.size(), 8u);
  EXPECT_EQ(back->ranks[7].program.size(), s.ranks[7].program.size());
  EXPECT_EQ(back->names, s.names);
}

TEST(Scenario, HandoversBetweenThreadsRoundTrip) {
  const std::string head = "lockstep-scenario 1\nname k\nrank host=a device=0\nstream id=7\nthread id=0\n";
  const std::string text = head +
                           "thread id=1\ncall t0 r211 gap=0 own=1\npush t1 n0 gap=2 follows=t0\n"
                           "call t1 r211 gap=0 own=1 follows=t0\npop t1 gap=0 follows=t0\n";
  const absl::StatusOr<Scenario> s = Parse(text, "f");
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->ranks[0].program[0].follows, kNoIndex);
  EXPECT_EQ(s->ranks[0].program[1].follows, 0u);
  const absl::StatusOr<Scenario> back = Parse(Text(*s), "f");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(Text(*back), Text(*s));
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(back->ranks[0].program[i].follows, 0u) << i;
  EXPECT_EQ(ErrorOf(head + "call t0 r211 gap=0 own=1 follows=t1\n"),
            "f: scenario, rank 0, line 6: follows= names a thread that is not declared in this rank");
  EXPECT_EQ(ErrorOf(head + "call t0 r211 gap=0 own=1 follows=1\n"),
            "f:6: expected an index like `t0`, got `1`");
}

TEST(Scenario, NamesOfAnyTextRoundTrip) {
  Scenario s;
  s.ranks.push_back({"ho st\n%", 0, {}, {0}, {}});
  Op push;
  push.kind = OpKind::kPush;
  push.name = s.AddName("a b%20\x01\xff\n");
  s.ranks[0].program.push_back(push);
  const absl::StatusOr<Scenario> back = Parse(Text(s), "f");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->names[0], "a b%20\x01\xff\n");
  EXPECT_EQ(back->ranks[0].host, "ho st\n%");
}

TEST(Scenario, ErrorsNameFileLineAndRemedy) {
  const std::string head = "lockstep-scenario 1\n";
  EXPECT_THAT(ErrorOf(""), HasSubstr("empty"));
  EXPECT_THAT(ErrorOf("{\"traceEvents\": []}\n"), HasSubstr("f:1: this is not a scenario"));
  EXPECT_THAT(ErrorOf(head + kRank + "launch t0\n"), HasSubstr("f:5: unknown operation `launch`"));
  EXPECT_THAT(ErrorOf(head + kRank + "call t0 211\n"), HasSubstr("callback id"));
  EXPECT_THAT(ErrorOf(head + kRank + "call t0 r211 gap=99999999999999999999\n"),
              HasSubstr("f:5: a time must be a whole number"));
  EXPECT_THAT(ErrorOf(head + kRank + "call t0 r211 gap=1.5\n"), HasSubstr("a time must be a whole number"));
  EXPECT_THAT(ErrorOf(head + kRank + "call t3 r211\n"), HasSubstr("line 5: its thread is not declared"));
  EXPECT_THAT(ErrorOf(head + kRank + "call t0 r211\nkernel s0 n0\n"),
              HasSubstr("line 6: its name is not declared"));
  EXPECT_THAT(ErrorOf(head + kRank + "pop t0\n"), HasSubstr("a pop needs a push"));
  EXPECT_THAT(ErrorOf(head + kRank), HasSubstr("no call, push or pop"));
  EXPECT_THAT(ErrorOf(head), HasSubstr("no ranks"));
  EXPECT_THAT(ErrorOf(head + "pacing loop 0\n" + kRank + "call t0 r1\n"), HasSubstr("period above 0"));
  EXPECT_THAT(ErrorOf(head + "call t0 r1\n"), HasSubstr("follow a `rank` line"));
}

TEST(Scenario, RefusesADeadlock) {
  const std::string head = "lockstep-scenario 1\nname k\ngroup comm=1 name=g members=0,1\n";
  const std::string reduce = "call t0 d652\ncoll s0 n0 g0 all_reduce\n";
  EXPECT_THAT(ErrorOf(head + kRank + reduce + reduce + kRank + reduce), HasSubstr("group g0: ranks 0 and 1"));
  EXPECT_THAT(ErrorOf(head + kRank + "call t0 d652\ncoll s0 n0 g0 send peer=1\n" + kRank + "call t0 r1\n"),
              HasSubstr("rank 0 sends 1 times to rank 1, which receives 0 times"));
  EXPECT_THAT(
      ErrorOf(head + kRank + "call t0 d652\ncoll s0 n0 g0 broadcast peer=2\n" + kRank + "call t0 r1\n"),
      HasSubstr("peer must be"));
  EXPECT_THAT(ErrorOf("lockstep-scenario 1\nname k\ngroup comm=1 name=g members=0,0\n" + std::string(kRank) +
                      "call t0 r1\n"),
              HasSubstr("different ranks"));
}

// Two ranks, each with one kernel that sends to the other and receives from it. `first` and `second` replace
// the kernels' fields after the group.
std::string Exchange(const std::string& first, const std::string& second) {
  const std::string call = "call t0 d652\ncoll s0 n0 g0 ";
  return "lockstep-scenario 1\nname k\ngroup comm=1 name=g members=0,1\n" + std::string(kRank) + call +
         first + "\n" + kRank + call + second + "\n";
}

TEST(Scenario, MessagesOfOneKernelRoundTrip) {
  const std::string text = Exchange("send peer=1 bytes=8 more=receive:1:9000000,send:1:0 type=ncclInt8",
                                    "receive peer=0 bytes=8 more=send:0:9000000,receive:0:0");
  const absl::StatusOr<Scenario> s = Parse(text, "f");
  ASSERT_TRUE(s.ok()) << s.status();
  const Op& op = s->ranks[0].program[1];
  EXPECT_EQ(op.more, (std::vector<Message>{{Collective::kReceive, 1, 9'000'000}, {Collective::kSend, 1, 0}}));
  EXPECT_EQ(op.datatype, "ncclInt8");
  EXPECT_EQ(MessagesOf(op),
            (std::vector<Message>{
                {Collective::kSend, 1, 8}, {Collective::kReceive, 1, 9'000'000}, {Collective::kSend, 1, 0}}));
  EXPECT_THAT(MessagesOf(s->ranks[0].program[0]), ::testing::IsEmpty()) << "of a call";
  EXPECT_THAT(Text(*s), HasSubstr(" peer=1 more=receive:1:9000000,send:1:0 type=ncclInt8 "));
  const absl::StatusOr<Scenario> back = Parse(Text(*s), "f");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->ranks[0].program[1].more, op.more);
  EXPECT_EQ(Text(*back), Text(*s));
}

TEST(Scenario, RefusesMessagesOfOneKernelThatCannotRun) {
  const std::string other = "receive peer=0 more=send:0:1";
  const auto error = [&](const std::string& first) { return ErrorOf(Exchange(first, other)); };
  EXPECT_TRUE(Parse(Exchange("send peer=1 more=receive:1:1", other), "f").ok());
  for (const char* bad :
       {"", "send", "send:1", "send:1:", "send::1", ":1:1", "send:1:1,", ",send:1:1", "send:x:1", "send:1:-1",
        "send:1:1:1", "all_reduce:1:1", "tell:1:1", "send:99999999999:1"}) {
    EXPECT_THAT(
        error("send peer=1 more=" + std::string(bad)),
        AllOf(HasSubstr("f:8: invalid message `"), HasSubstr("as in more=send:1:4096,receive:0:4096")))
        << bad;
  }
  EXPECT_THAT(error("all_reduce more=send:1:1"),
              HasSubstr("rank 0, line 8: more= is for send and receive; remove it from all_reduce"));
  EXPECT_THAT(error("broadcast peer=1 more=send:1:1"), HasSubstr("remove it from broadcast"));
  EXPECT_THAT(error("send peer=1 more=receive:2:1"),
              HasSubstr("rank 0, line 8: peer must be a rank of group g0, 0 to 1"));
  EXPECT_THAT(error("send peer=1 more=receive:-1:1"), HasSubstr("rank 0, line 8: peer must be"));
  EXPECT_THAT(error("send peer=1 more=receive:0:1"),
              HasSubstr("rank 0, line 8: a rank cannot be its own peer; remove that message"));
  EXPECT_THAT(error("send peer=1"),
              HasSubstr("rank 1, line 13: in group g0, rank 1 sends 1 times to rank 0, which "
                        "receives 0 times; add the missing receive or remove this one"));
  EXPECT_THAT(
      error("send peer=1 more=receive:1:1,receive:1:1"),
      HasSubstr("rank 0, line 8: in group g0, rank 1 sends 1 times to rank 0, which receives 2 times; add "
                "the missing send or remove this one"));
  EXPECT_THAT(
      error("send peer=1 more=receive:1:5000000"),
      HasSubstr("rank 0, line 8: it receives 5000000 bytes, but rank 1 sends 1; give both the same bytes="));
}

// A program that changes an op in memory has no text that the parser would refuse.
TEST(Scenario, RefusesAMessageThatIsNotASendOrReceive) {
  Scenario s = *Parse(Exchange("send peer=1", "receive peer=0"), "f");
  s.ranks[0].program[1].more.push_back({Collective::kAllReduce, 1, 1});
  EXPECT_THAT(std::string(Validate(s).message()), HasSubstr("more= may hold only send and receive"));
}

TEST(Scenario, DamagedTextNeverCrashesTheReader) {
  const std::string whole_job =
      Text(*MakeTransformer({.data_parallel = 1, .layers_per_stage = 1, .microbatches = 1}));
  const std::string exchange = Exchange("send peer=1 bytes=8 more=receive:1:9000000,send:1:4",
                                        "receive peer=0 bytes=8 more=send:0:9000000,receive:0:4");
  for (const std::string& good : {whole_job, exchange}) {
    std::mt19937 random(7);
    int accepted = 0;
    for (int i = 0; i < 3000; ++i) {
      std::string bad = good;
      const int kind = static_cast<int>(random() % 3);
      if (kind == 0) bad.resize(random() % bad.size());
      for (int k = 0; kind == 1 && k < 3; ++k) bad[random() % bad.size()] = static_cast<char>(random());
      if (kind == 2) bad.erase(random() % bad.size(), random() % 40);
      accepted += Parse(bad, "f").ok();
    }
    EXPECT_LT(accepted, 3000);
  }
}

TEST(Scenario, NamesAMissingFile) {
  EXPECT_THAT(std::string(ReadFile("/nonexistent/x.scenario").status().message()),
              HasSubstr("/nonexistent/x.scenario"));
}

TEST(Recorded, AThreadFollowsTheOneThatHandedOverToIt) {
  RecordedRank recorded;
  recorded.host = "a";
  recorded.streams = {7};
  recorded.threads = {0, 1};
  const auto call = [&](int64_t start, int64_t end, uint32_t thread) {
    RecordedCall c;
    c.start = Nanos(start);
    c.end = Nanos(end);
    c.thread = thread;
    recorded.calls.push_back(c);
  };
  call(0, 10, 0);
  call(12, 20, 1);
  call(25, 30, 0);
  call(28, 32, 1);  // while the other thread is inside its call
  recorded.ranges.push_back({Nanos(40), Nanos(50), 0, 0});
  const Rank rank = ToProgram(recorded);
  const std::vector<std::pair<uint32_t, int64_t>> expected = {{kNoIndex, 0}, {0, 2}, {1, 5},
                                                              {kNoIndex, 8}, {1, 8}, {kNoIndex, 10}};
  ASSERT_EQ(rank.program.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(rank.program[i].follows, expected[i].first) << i;
    EXPECT_EQ(rank.program[i].gap.ns(), expected[i].second) << i;
  }
}

TEST(Generator, AcceptsUsualShapesAndRefusesAbsurdOnes) {
  for (uint32_t ranks : {1u, 2u, 3u, 4u, 6u, 8u, 16u, 64u}) {
    const TransformerShape shape = ShapeFor(ranks);
    EXPECT_EQ(shape.ranks(), ranks);
    EXPECT_TRUE(MakeTransformer(shape).ok()) << ranks;
  }
  EXPECT_FALSE(MakeTransformer({.data_parallel = 0}).ok());
  EXPECT_FALSE(MakeTransformer({.data_parallel = 4000, .tensor_parallel = 4000}).ok());
  EXPECT_FALSE(MakeTransformer({.microbatches = 100000}).ok());
}

TEST(Generator, RolesHaveTheirOwnKernelNames) {
  const Scenario s = *MakeTransformer({});
  int nccl = 0;
  for (const std::string& name : s.names) nccl += name.rfind("ncclDevKernel_", 0) == 0;
  EXPECT_EQ(nccl, 4);
  EXPECT_GT(s.names.size(), 15u);
}

}  // namespace
}  // namespace lockstep::scenario
