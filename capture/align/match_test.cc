#include "capture/align/match.h"

#include <random>

#include "capture/model/timeline_builder_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::capture {
namespace {

using capture::CollectiveOp;
using capture::MatchSource;
using capture::TimelineBuilder;

// Ranks of the members of an instance, by the capture's rank numbers.
std::vector<int> RanksOf(const capture::Capture& capture, const Instance& instance) {
  std::vector<int> ranks;
  for (const Member& m : instance.members) ranks.push_back(capture.ranks[m.rank_index].rank.value());
  return ranks;
}

// Expects the same mark on all members of every instance. Tests that know the truth put the mark into the
// correlation, which Match does not read.
void ExpectPairsCarryTheSameMark(const capture::Capture& capture, const Matches& matches) {
  for (const Instance& instance : matches.instances) {
    const auto mark = [&](const Member& m) {
      return capture.ranks[m.rank_index]
          .activities[capture.ranks[m.rank_index].collectives[m.collective].activity]
          .correlation;
    };
    for (const Member& m : instance.members) EXPECT_EQ(mark(m), mark(instance.members[0]));
  }
}

// Adds a kernel whose correlation is its mark.
void AddMarked(capture::RankTimeline& rank, const capture::CollectiveSpec& spec, double start_us,
               double duration_us, uint32_t mark) {
  rank.Communication(spec, start_us, duration_us);
  rank.data().activities.back().correlation = CorrelationId(mark);
}

TEST(Match, MatchesSequenceNumbersPerOperationOfACommunicator) {
  TimelineBuilder t;
  const uint32_t g = t.Group("comm", {0, 1});
  for (int r = 0; r < 2; ++r) {
    // Both operations have a number 7; rank 1 recorded them in the other order.
    const double first = r == 0 ? 0 : 100, second = r == 0 ? 100 : 0;
    t.Rank(r).Communication(
        {.op = CollectiveOp::kAllReduce, .group = g, .source = MatchSource::kNcclSequence, .sequence = 7},
        first, 10);
    t.Rank(r).Communication(
        {.op = CollectiveOp::kAllGather, .group = g, .source = MatchSource::kNcclSequence, .sequence = 7},
        second, 10);
  }
  const capture::Capture capture = t.Build();
  const Matches m = Match(capture);
  EXPECT_EQ(m.by_nccl_sequence, 2u);
  ASSERT_EQ(m.instances.size(), 2u);
  EXPECT_NE(m.instances[0].op, m.instances[1].op);
  EXPECT_EQ(m.unmatched, 0u);
}

TEST(Match, WindowsThatBeginAtDifferentNumbersKeepThem) {
  TimelineBuilder t;
  const uint32_t g = t.Group("comm", {0, 1});
  for (int s = 0; s < 10; ++s) {
    if (s >= 2)
      t.Rank(0).Communication({.group = g, .source = MatchSource::kGroupSequence, .sequence = s}, 100.0 * s,
                              10);
    if (s < 9)
      t.Rank(1).Communication({.group = g, .source = MatchSource::kGroupSequence, .sequence = s}, 100.0 * s,
                              10);
  }
  const Matches m = Match(t.Build());
  EXPECT_EQ(m.by_group_sequence, 7u);
  EXPECT_EQ(m.cut_by_window, 3u);
  EXPECT_EQ(m.unmatched, 0u);
  EXPECT_EQ(m.MatchedFraction(), 1.0);
}

TEST(Match, QuarantinesContradictoryMembers) {
  TimelineBuilder t;
  const uint32_t g = t.Group("comm", {0, 1});
  for (int s = 0; s < 30; ++s) {
    const auto op = s == 11 ? CollectiveOp::kAllGather : CollectiveOp::kAllReduce;
    t.Rank(0).Communication({.op = op, .group = g, .source = MatchSource::kGroupSequence, .sequence = s},
                            100.0 * s, 10);
    t.Rank(1).Communication({.group = g, .source = MatchSource::kGroupSequence, .sequence = s}, 100.0 * s,
                            10);
  }
  const Matches m = Match(t.Build());
  EXPECT_EQ(m.conflicts, 2u);
  EXPECT_EQ(m.by_group_sequence, 29u);
  EXPECT_EQ(m.instance_of[0][11], capture::kNone);
}

TEST(Match, MatchesByOrderWhenNumbersContradictTooOften) {
  TimelineBuilder t;
  const uint32_t g = t.Group("comm", {0, 1});
  for (int s = 0; s < 12; ++s) {
    // Rank 1's counter is shared with other groups and runs ahead.
    const auto op = s % 2 == 0 ? CollectiveOp::kAllReduce : CollectiveOp::kAllGather;
    t.Rank(0).Communication({.op = op, .group = g, .source = MatchSource::kGroupSequence, .sequence = s},
                            100.0 * s, 10);
    t.Rank(1).Communication({.op = op, .group = g, .source = MatchSource::kGroupSequence, .sequence = s + 1},
                            100.0 * s, 10);
  }
  const Matches m = Match(t.Build());
  EXPECT_EQ(m.by_order, 12u);
  EXPECT_EQ(m.unmatched, 0u);
}

TEST(Match, DistinguishesGroupsByMembersAndNotByNames) {
  TimelineBuilder t;
  const uint32_t a = t.Group("tp", {0, 1});
  const uint32_t b = t.Group("tp", {2, 3});
  for (int r = 0; r < 4; ++r) t.Rank(r).AllReduce(r < 2 ? a : b, 10, 5);
  const capture::Capture capture = t.Build();
  const Matches m = Match(capture);
  ASSERT_EQ(m.instances.size(), 2u);
  EXPECT_THAT(RanksOf(capture, m.instances[0]), testing::ElementsAre(0, 1));
  EXPECT_THAT(RanksOf(capture, m.instances[1]), testing::ElementsAre(2, 3));
}

// Ranks of real traces of 2021 have 27 against 29 and 56 against 58 collectives.
TEST(Match, AlignsUnequalWindowsAsSequencesAndCountsTheRest) {
  for (const int total : {29, 58}) {
    for (const int front : {0, 1, 2}) {
      std::mt19937 random(static_cast<unsigned>(total * 3 + front));
      TimelineBuilder t;
      const uint32_t g = t.Group("world", {0, 1});
      double now = 0;
      for (int i = 0; i < total; ++i) {
        now += 20'000 + static_cast<double>(random() % 70'000);
        const double spread = static_cast<double>(random() % 1500);
        t.Rank(0, "a").AllReduce(g, now - 9'000, 9'000);
        if (i < front || i >= total - (2 - front)) continue;
        t.Rank(1, "b").AllReduce(g, now - 12'000, 12'000 + spread);
        t.Rank(1, "b").data().activities.back().correlation =
            t.Rank(0, "a").data().activities.back().correlation;
      }
      const capture::Capture capture = t.Build();
      const Matches m = Match(capture);
      EXPECT_EQ(m.by_order, static_cast<uint64_t>(total - 2));
      EXPECT_EQ(m.cut_by_window, 2u);
      EXPECT_EQ(m.unmatched, 0u);
      ExpectPairsCarryTheSameMark(capture, m);
    }
  }
}

TEST(Match, SendReceiveKernelsOfAWholeGroupAreOneExchangeByDefault) {
  TimelineBuilder t;
  const uint32_t g = t.Group("world", {0, 1, 2, 3});
  for (int r = 0; r < 4; ++r) {
    for (int i = 0; i < 5; ++i)
      t.Rank(r).Communication({.op = CollectiveOp::kSendReceive, .group = g}, 1000.0 * i + 10 * r,
                              200 - 10.0 * r);
  }
  const Matches m = Match(t.Build());
  EXPECT_EQ(m.by_order, 5u);
  EXPECT_EQ(m.instances[0].members.size(), 4u);
  EXPECT_TRUE(m.instances[0].complete);
}

TEST(Match, UnequalNumbersOfSendReceiveKernelsStayUnmatched) {
  TimelineBuilder t;
  const uint32_t g = t.Group("world", {0, 1, 2});
  for (int r = 0; r < 3; ++r) {
    for (int i = 0; i < (r == 1 ? 16 : 8); ++i)
      t.Rank(r).Communication({.op = CollectiveOp::kSendReceive, .group = g}, 1000.0 * i, 100);
    t.Rank(r).AllReduce(g, 50'000, 40);
  }
  const Matches m = Match(t.Build());
  EXPECT_EQ(m.by_order, 1u);
  EXPECT_EQ(m.unmatched, 32u);
}

TEST(Match, RejectsAGroupMadeOfSeveralCommunicators) {
  TimelineBuilder t;
  const uint32_t g = t.Group("world", {0, 1, 2, 3});
  // Two pairs of ranks that never meet run half a millisecond apart, with equally many all-reduces.
  for (int r = 0; r < 4; ++r) {
    for (int i = 0; i < 20; ++i) t.Rank(r).AllReduce(g, 1000.0 * i + (r < 2 ? 0 : 500), 100);
  }
  const Matches m = Match(t.Build());
  EXPECT_EQ(m.by_order, 0u);
  EXPECT_EQ(m.unmatched, 80u);
}

TEST(Match, PairsMessagesInOrderForAnyWindows) {
  for (const int cut_sender : {0, 1, 3}) {
    for (const int cut_receiver : {0, 1, 2}) {
      std::mt19937 random(static_cast<unsigned>(10 * cut_sender + cut_receiver));
      TimelineBuilder t;
      const uint32_t g = t.Group("pipeline", {0, 1});
      double now = 0;
      for (int i = 0; i < 40; ++i) {
        now += 700 + static_cast<double>(random() % 600);
        const bool receiver_waits = i % 2 == 0;
        capture::RankTimeline& sender = t.Rank(0);
        capture::RankTimeline& receiver = t.Rank(1);
        const capture::CollectiveSpec send{.op = CollectiveOp::kSend,
                                           .group = g,
                                           .source = MatchSource::kNcclSequence,
                                           .sequence = i - cut_sender,
                                           .peer = 1};
        const capture::CollectiveSpec receive{.op = CollectiveOp::kReceive,
                                              .group = g,
                                              .source = MatchSource::kNcclSequence,
                                              .sequence = i - cut_receiver,
                                              .peer = 0};
        const auto mark = static_cast<uint32_t>(1000 + i);
        if (i >= cut_sender) AddMarked(sender, send, now, 50, mark);
        if (i >= cut_receiver)
          AddMarked(receiver, receive, receiver_waits ? now - 300 : now + 200, receiver_waits ? 350 : 50,
                    mark);
      }
      const capture::Capture capture = t.Build();
      const Matches m = Match(capture);
      EXPECT_EQ(m.by_nccl_sequence, static_cast<uint64_t>(40 - std::max(cut_sender, cut_receiver)));
      ExpectPairsCarryTheSameMark(capture, m);
    }
  }
}

TEST(Match, ALostMessageLeavesAGapWithoutAShift) {
  std::mt19937 random(4);
  TimelineBuilder t;
  const uint32_t g = t.Group("pipeline", {0, 1});
  double now = 0;
  for (int i = 0; i < 60; ++i) {
    now += 700 + static_cast<double>(random() % 600);
    const auto mark = static_cast<uint32_t>(1000 + i);
    if (i != 25) AddMarked(t.Rank(0), {.op = CollectiveOp::kSend, .group = g, .peer = 1}, now, 50, mark);
    const double early = static_cast<double>(random() % 400);
    AddMarked(t.Rank(1), {.op = CollectiveOp::kReceive, .group = g, .peer = 0}, now - early, early + 50,
              mark);
  }
  const capture::Capture capture = t.Build();
  const Matches m = Match(capture);
  EXPECT_GE(m.by_order, 58u);
  size_t wrong = 0;
  for (const Instance& i : m.instances) {
    const auto mark = [&](const Member& x) {
      return capture.ranks[x.rank_index]
          .activities[capture.ranks[x.rank_index].collectives[x.collective].activity]
          .correlation;
    };
    wrong += mark(i.members[0]) == mark(i.members[1]) ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0u);
}

// A receiver that comes much later than usual keeps its message if the send's kernel still runs then, as it
// does if it holds other messages. If that kernel has ended, the true partners of both may be lost.
TEST(Match, ALateReceiverKeepsItsMessageIfTheSendStillRuns) {
  for (const bool runs : {true, false}) {
    TimelineBuilder t;
    const uint32_t g = t.Group("pipeline", {0, 1});
    for (int i = 0; i < 40; ++i) {
      const double now = 1000.0 * i;
      const double late = i == 20 ? 800 : 10;
      const auto mark = static_cast<uint32_t>(1000 + i);
      AddMarked(t.Rank(0), {.op = CollectiveOp::kSend, .group = g, .peer = 1}, now, runs ? late + 50 : 60,
                mark);
      AddMarked(t.Rank(1), {.op = CollectiveOp::kReceive, .group = g, .peer = 0}, now + late, 50, mark);
    }
    const capture::Capture capture = t.Build();
    const Matches m = Match(capture);
    EXPECT_EQ(m.instances.size(), runs ? 40u : 39u);
    ExpectPairsCarryTheSameMark(capture, m);
  }
}

// Steps of forty calls have one kernel and six messages. The receiver always waits and lost one record in the
// middle; the sender lost none.
TEST(Match, AReceiverThatLostARecordMatchesASenderThatLostNone) {
  std::mt19937 random(4);
  TimelineBuilder t;
  const uint32_t g = t.Group("pipeline", {0, 1});
  double now = 0;
  for (uint32_t step = 0; step < 8; ++step) {
    for (int r = 0; r < 2; ++r) {
      t.Rank(r).Kernel("once", now + 300, 20);
      t.Rank(r).data().activities.back().correlation = CorrelationId(40 * step + 1);
    }
    for (uint32_t m = 0; m < 6; ++m) {
      now += 700 + static_cast<double>(random() % 600);
      const uint32_t call = 40 * step + 6 * m + 3;
      AddMarked(t.Rank(0), {.op = CollectiveOp::kSend, .group = g, .peer = 1}, now, 50, call);
      if (6 * step + m == 27) continue;
      const double early = 30 + static_cast<double>(random() % 400);
      AddMarked(t.Rank(1), {.op = CollectiveOp::kReceive, .group = g, .peer = 0}, now - early, early + 50,
                call);
    }
  }
  t.Rank(1).data().losses.push_back({.records = 1});
  const capture::Capture capture = t.Build();
  const Matches m = Match(capture);
  EXPECT_EQ(m.instances.size(), 47u);
  ExpectPairsCarryTheSameMark(capture, m);
}

TEST(Match, ASingleRanksOwnGroupHasNothingUnmatched) {
  TimelineBuilder t;
  const uint32_t g = t.Group("self", {0});
  t.Rank(0).AllReduce(g, 0, 10);
  const Matches m = Match(t.Build());
  EXPECT_EQ(m.unmatched, 0u);
  EXPECT_EQ(m.by_order, 0u);
}

TEST(Match, IgnoresNumbersOutsideTheTables) {
  TimelineBuilder t;
  t.Group("world", {0, 1});
  t.Rank(0).Communication({.group = 77, .source = MatchSource::kNcclSequence, .sequence = 1}, 0, 10);
  t.Rank(1).Communication({.op = CollectiveOp::kSend, .group = 0, .peer = 900}, 0, 10);
  const Matches m = Match(t.Build());
  EXPECT_TRUE(m.instances.empty() || !m.instances[0].complete);
}

}  // namespace
}  // namespace lockstep::capture
