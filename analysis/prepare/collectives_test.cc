#include "analysis/prepare/collectives.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>
#include <string>

#include "analysis/time/collective_table.h"
#include "capture/model/timeline_builder_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

using capture::CollectiveOp;
using capture::TimelineBuilder;

struct Timed {
  capture::Capture capture;
  capture::Matches matches;
  capture::ClockModel clock;
  CollectiveTimes times;

  explicit Timed(capture::Capture c) : capture(std::move(c)) {
    matches = capture::Match(capture);
    clock = capture::EstimateClocks(capture, matches);
    times = TimeCollectives(capture, matches, clock);
  }
  Nanos Wait(size_t rank, size_t collective) const { return times.parts[rank][collective].wait; }
};

TEST(Collectives, SymmetricOperationsWaitForTheShortestMember) {
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1, 2});
  t.Rank(0).AllReduce(all, 0, 100);
  t.Rank(1).AllReduce(all, 60, 40);
  t.Rank(2).AllReduce(all, 90, 10);
  const Timed a(t.Build());
  EXPECT_EQ(a.Wait(0, 0), Nanos::Micros(90));
  EXPECT_EQ(a.Wait(1, 0), Nanos::Micros(30));
  EXPECT_EQ(a.Wait(2, 0), Nanos());
  EXPECT_EQ(a.times.parts[0][0].wait_by_clock, Nanos::Micros(90));
  EXPECT_EQ(a.times.instances[0].transfer, Nanos::Micros(10));
  EXPECT_EQ(a.times.caused_wait[2], Nanos::Micros(120));
  EXPECT_EQ(a.times.times_last[2], 1u);
  EXPECT_EQ(a.times.disagreeing, 0u);
}

TEST(Collectives, WaitingOfSymmetricOperationsIsIndependentOfClocks) {
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1});
  t.Rank(0, "a").AllReduce(all, 0, 100).AllReduce(all, 200, 30);
  t.Rank(1, "b").AllReduce(all, 9060, 40).AllReduce(all, 9200, 30);  // this host is 9 ms ahead
  const Timed a(t.Build());
  EXPECT_EQ(a.Wait(0, 0), Nanos::Micros(60));
  EXPECT_EQ(a.times.caused_wait[1], Nanos::Micros(60));
}

TEST(Collectives, ReceiversOfABroadcastWaitForItsRoot) {
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1});
  const capture::CollectiveSpec broadcast{.op = CollectiveOp::kBroadcast, .group = all, .root = 0};
  t.Rank(0).Communication(broadcast, 50, 20);
  t.Rank(1).Communication(broadcast, 0, 70);
  t.Rank(0).Communication(broadcast, 100, 200);
  t.Rank(1).Communication(broadcast, 250, 50);
  const Timed a(t.Build());
  EXPECT_EQ(a.Wait(0, 0), Nanos());
  EXPECT_EQ(a.Wait(1, 0), Nanos::Micros(50));
  EXPECT_EQ(a.Wait(0, 1), Nanos()) << "an early root has no waiting";
  EXPECT_EQ(a.Wait(1, 1), Nanos());
  EXPECT_EQ(a.times.caused_wait[0], Nanos::Micros(50));
}

TEST(Collectives, LeavesOfAReduceNeverWait) {
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1, 2});
  const capture::CollectiveSpec reduce{.op = CollectiveOp::kReduce, .group = all, .root = 1};
  t.Rank(0).Communication(reduce, 0, 10);
  t.Rank(1).Communication(reduce, 20, 90);
  t.Rank(2).Communication(reduce, 100, 10);
  const Timed a(t.Build());
  EXPECT_EQ(a.Wait(0, 0), Nanos());
  EXPECT_EQ(a.Wait(1, 0), Nanos::Micros(80));
  EXPECT_EQ(a.Wait(2, 0), Nanos());
  EXPECT_EQ(a.times.caused_wait[2], Nanos::Micros(80));
}

TEST(Collectives, OnlyTheReceiverOfAMessageWaits) {
  TimelineBuilder t;
  const uint32_t pair = t.Group("stages", {0, 1});
  for (int i = 0; i < 4; ++i) {
    const double at = 300.0 * i;
    t.Rank(0).Communication({.op = CollectiveOp::kSend, .group = pair, .peer = 1}, at + 50, 15);
    t.Rank(1).Communication({.op = CollectiveOp::kReceive, .group = pair, .peer = 0}, at + 10, 55);
  }
  const Timed a(t.Build());
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(a.Wait(0, i), Nanos());
    EXPECT_EQ(a.Wait(1, i), Nanos::Micros(40));
  }
  EXPECT_EQ(a.times.caused_wait[0], Nanos::Micros(160));
}

TEST(Collectives, TheSenderOfALargeMessageWaitsForItsReceiver) {
  for (const bool buffered : {true, false}) {
    TimelineBuilder t;
    const uint32_t pair = t.Group("pair", {0, 1});
    for (int i = 0; i < 6; ++i) {
      const double at = 1000.0 * i;
      // The receiver comes 200 us late; a transfer takes 20 us.
      t.Rank(0).Communication({.op = CollectiveOp::kSend, .group = pair, .bytes = 1 << 20, .peer = 1}, at,
                              buffered ? 20 : 220);
      t.Rank(1).Communication({.op = CollectiveOp::kReceive, .group = pair, .bytes = 1 << 20, .peer = 0},
                              at + 200, 20);
    }
    const Timed a(t.Build());
    ASSERT_FALSE(a.matches.instances.empty());
    for (const InstanceTiming& timing : a.times.instances) EXPECT_EQ(timing.rendezvous, !buffered);
    EXPECT_EQ(a.Wait(0, 2), Nanos::Micros(buffered ? 0 : 200));
    EXPECT_EQ(a.Wait(1, 2), Nanos());
  }
}

capture::CollectiveSpec Send(uint32_t group, int32_t to, int64_t bytes = -1) {
  return {.op = CollectiveOp::kSend, .group = group, .bytes = bytes, .peer = to};
}
capture::CollectiveSpec Receive(uint32_t group, int32_t from, int64_t bytes = -1) {
  return {.op = CollectiveOp::kReceive, .group = group, .bytes = bytes, .peer = from};
}

// One kernel of rank 1 receives from rank 0, which comes after 30 us, and from rank 2, which comes after 80
// us.
capture::Capture TwoMessagesInOneKernel() {
  TimelineBuilder t;
  const uint32_t stages = t.Group("stages", {0, 1, 2});
  t.Rank(0).Communication(Send(stages, 1), 30, 70);
  t.Rank(1).Communication(Receive(stages, 0), 0, 100).AndCollective(Receive(stages, 2));
  t.Rank(2).Communication(Send(stages, 1), 80, 20);
  return t.Build();
}

// The timing of the message from one rank to the other.
const InstanceTiming& TimingOf(const Timed& a, uint32_t from, uint32_t to) {
  for (size_t n = 0; n < a.matches.instances.size(); ++n) {
    const auto& members = a.matches.instances[n].members;
    const auto sends = [&](const capture::Member& m) {
      return a.capture.ranks[m.rank_index].collectives[m.collective].op == CollectiveOp::kSend;
    };
    if (members.size() != 2) continue;
    const size_t sender = sends(members[0]) ? 0 : 1;
    if (members[sender].rank_index == from && members[1 - sender].rank_index == to)
      return a.times.instances[n];
  }
  ADD_FAILURE() << "no message from " << from << " to " << to;
  static const InstanceTiming none;
  return none;
}

TEST(Collectives, AKernelOfSeveralMessagesWaitsForTheLatestPartner) {
  const Timed a(TwoMessagesInOneKernel());
  EXPECT_EQ(a.Wait(1, 0), Nanos::Micros(80));
  EXPECT_EQ(a.Wait(1, 1), Nanos::Micros(80));
  EXPECT_TRUE(a.times.parts[1][0].split);
  EXPECT_EQ(TimingOf(a, 0, 1).transfer, Nanos::Micros(20)) << "not the 70 us until rank 2's message arrived";
  EXPECT_EQ(TimingOf(a, 0, 1).last, capture::kNone) << "nobody waited last for rank 0";
  EXPECT_NE(TimingOf(a, 2, 1).last, capture::kNone);
  EXPECT_EQ(a.times.caused_wait[0], Nanos());
  EXPECT_EQ(a.times.caused_wait[2], Nanos::Micros(80));
}

TEST(Collectives, APartnerWithOneMessageWaitsForAKernelOfSeveral) {
  TimelineBuilder t;
  const uint32_t stages = t.Group("stages", {0, 1, 2});
  t.Rank(0).Communication(Receive(stages, 1), 0, 90);
  t.Rank(1).Communication(Send(stages, 0), 60, 40).AndCollective(Receive(stages, 2));
  t.Rank(2).Communication(Send(stages, 1), 80, 20);
  const Timed a(t.Build());
  EXPECT_EQ(a.Wait(0, 0), Nanos::Micros(60));
  EXPECT_EQ(a.Wait(1, 0), Nanos::Micros(20));
  EXPECT_EQ(a.times.caused_wait[1], Nanos::Micros(60));
  EXPECT_EQ(a.times.caused_wait[2], Nanos::Micros(20));
}

TEST(Collectives, AKernelWithAMessageOfUnknownPartnerIsUnsplitWithALowerLimitOfWaiting) {
  TimelineBuilder t;
  const uint32_t stages = t.Group("stages", {0, 1, 2});
  t.Rank(0).Communication(Send(stages, 1), 30, 70);
  t.Rank(1).Communication(Receive(stages, 0), 0, 100).AndCollective(Receive(stages, 2));
  const Timed a(t.Build());
  EXPECT_FALSE(a.times.parts[1][0].split);
  EXPECT_FALSE(a.times.parts[1][1].split);
  EXPECT_EQ(a.Wait(1, 0), Nanos::Micros(30));
}

TEST(Collectives, AKernelDoesNotAwaitItsMessageToItself) {
  TimelineBuilder t;
  const uint32_t stages = t.Group("stages", {0, 1});
  t.Rank(0).Communication(Send(stages, 1), 30, 70);
  t.Rank(1)
      .Communication(Receive(stages, 0), 0, 100)
      .AndCollective(Send(stages, 1))
      .AndCollective(Receive(stages, 1));
  const Timed a(t.Build());
  EXPECT_TRUE(a.times.parts[1][0].split);
  EXPECT_EQ(a.Wait(1, 0), Nanos::Micros(30));
}

TEST(Collectives, AKernelOfSeveralMessagesShorterThanTheClockBoundIsUnsplit) {
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1});
  t.Rank(0, "a").Communication(Send(all, 1), 0, 20).AllReduce(all, 100, 5000);
  t.Rank(1, "b").Communication(Receive(all, 0), 0, 30).AndCollective(Send(all, 0)).AllReduce(all, 110, 4990);
  t.Rank(0, "a").Communication(Receive(all, 1), 50, 20);
  const Timed a(t.Build());
  ASSERT_GT(a.clock.bound(), Nanos::Micros(30));
  EXPECT_FALSE(a.times.parts[1][0].split);
  EXPECT_FALSE(a.times.parts[1][1].split);
}

// A receiver that comes late shows that the sender waits for it, unless the sender waits in that kernel
// anyway.
TEST(Collectives, AnExchangeInOneKernelDoesNotShowRendezvous) {
  for (const bool exchange : {true, false}) {
    TimelineBuilder t;
    const uint32_t pair = t.Group("pair", {0, 1, 2});
    for (int i = 0; i < 6; ++i) {
      const double at = 1000.0 * i;
      t.Rank(0).Communication(Send(pair, 1, 1 << 20), at, 220);
      t.Rank(1).Communication(Receive(pair, 0, 1 << 20), at + 200, 20);
      if (exchange) {
        t.Rank(0).AndCollective(Receive(pair, 1, 1 << 20));
        t.Rank(1).AndCollective(Send(pair, 0, 1 << 20));
      } else {  // rank 2 came before
        t.Rank(0).AndCollective(Receive(pair, 2, 1 << 10));
        t.Rank(2).Communication(Send(pair, 0, 1 << 10), at + 10, 5);
      }
    }
    const Timed a(t.Build());
    EXPECT_EQ(TimingOf(a, 0, 1).rendezvous, !exchange);
    EXPECT_EQ(a.Wait(0, 0), Nanos::Micros(200));
    EXPECT_EQ(a.times.caused_wait[1], Nanos::Micros(1200));
  }
}

TEST(Collectives, OneWayOperationsShorterThanTheClockBoundAreUnsplit) {
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1});
  const capture::CollectiveSpec broadcast{.op = CollectiveOp::kBroadcast, .group = all, .root = 0};
  t.Rank(0, "a").Communication(broadcast, 0, 20).AllReduce(all, 100, 5000);
  t.Rank(1, "b").Communication(broadcast, 0, 30).AllReduce(all, 110, 4990);
  const Timed a(t.Build());
  EXPECT_GT(a.clock.bound(), Nanos::Micros(30));
  EXPECT_FALSE(a.times.parts[1][0].split);
  EXPECT_TRUE(a.times.parts[0][0].split) << "the root does not wait, for any clocks";
  EXPECT_TRUE(a.times.parts[0][1].split);
}

TEST(Collectives, FindsAnUnnamedRootAsTheOnlyConsistentRank) {
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1});
  const capture::CollectiveSpec broadcast{.op = CollectiveOp::kBroadcast, .group = all};
  // Rank 0 ended before rank 1 began, so rank 1 is not the root.
  t.Rank(0).Communication(broadcast, 0, 20).Communication(broadcast, 500, 20);
  t.Rank(1).Communication(broadcast, 300, 25).Communication(broadcast, 400, 125);
  const Timed a(t.Build());
  EXPECT_TRUE(a.times.parts[1][1].split);
  EXPECT_EQ(a.Wait(1, 1), Nanos::Micros(100));
  EXPECT_EQ(a.Wait(0, 1), Nanos());
}

TEST(Collectives, AnUnknownRootLeavesTheOperationUnsplit) {
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1});
  const capture::CollectiveSpec broadcast{.op = CollectiveOp::kBroadcast, .group = all};
  t.Rank(0).Communication(broadcast, 0, 50);
  t.Rank(1).Communication(broadcast, 10, 45);
  const Timed a(t.Build());
  EXPECT_FALSE(a.times.parts[0][0].split);
  EXPECT_FALSE(a.times.parts[1][0].split);
}

TEST(Collectives, AnInstanceWithoutARankIsUnsplitWithALowerLimitOfWaiting) {
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1, 2});
  t.Rank(0).AllReduce(all, 0, 100);
  t.Rank(1).AllReduce(all, 60, 40);
  const Timed a(t.Build());
  EXPECT_FALSE(a.times.parts[0][0].split);
  EXPECT_TRUE(a.times.instances[0].partial);
  EXPECT_EQ(a.Wait(0, 0), Nanos::Micros(60)) << "at least: rank 2 may have come later still";
  EXPECT_EQ(a.times.caused_wait[1], Nanos::Micros(60));
}

TEST(Collectives, AMissingRecordOfARecordedRankLeavesAllMembersUnsplit) {
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1, 2});
  for (int i = 0; i < 5; ++i) {
    for (int r = 0; r < 3; ++r) {
      if (i == 2 && r == 2) continue;
      t.Rank(r).Communication({.group = all, .source = capture::MatchSource::kNcclSequence, .sequence = i},
                              1000.0 * i + 20 * r, 100 - 20.0 * r);
    }
  }
  const Timed a(t.Build());
  EXPECT_EQ(a.matches.partial, 1u);
  EXPECT_EQ(a.matches.MatchedFraction(), 1.0);
  EXPECT_FALSE(a.times.parts[0][2].split);
  EXPECT_TRUE(a.times.parts[0][3].split);
}

TEST(Collectives, ALastArriverThatIsDelayedDuringTheOperationDidNotWait) {
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1, 2});
  for (int i = 0; i < 20; ++i) {
    const double at = 1000.0 * i;
    // In the eleventh instance, rank 2 comes last and is interrupted during its transfer. The others have
    // left by then.
    t.Rank(0).AllReduce(all, at, 330);
    t.Rank(1).AllReduce(all, at + 100, 230);
    t.Rank(2).AllReduce(all, at + 300, i == 10 ? 600 : 30);
  }
  const Timed a(t.Build());
  EXPECT_EQ(a.times.stalled, 1u);
  EXPECT_EQ(a.Wait(0, 10), Nanos::Micros(300));
  EXPECT_EQ(a.Wait(1, 10), Nanos::Micros(200));
  EXPECT_EQ(a.Wait(2, 10), Nanos());
  EXPECT_EQ(a.times.instances[10].transfer, Nanos::Micros(30));
  EXPECT_EQ(a.times.instances[10].stalled, Nanos::Micros(570));
  EXPECT_EQ(a.times.disagreeing, 0u);
}

// Sixteen ranks on four hosts, whose clocks are off by up to a millisecond. Every operation is compared with
// the truth.
TEST(Collectives, WaitsAreExactToMicrosecondsOnWrongClocks) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr int kRuns = 2;
#else
  constexpr int kRuns = 12;
#endif
  std::mt19937_64 random(2718);
  std::exponential_distribution<double> one(1);
  std::uniform_real_distribution<double> unit(-1, 1);
  std::normal_distribution<double> normal(0, 1);
  std::vector<double> errors;
  size_t members = 0, unsplit = 0;
  for (int run = 0; run < kRuns; ++run) {
    constexpr int kRanks = 16;
    struct {
      double offset, drift;
    } clocks[4];
    for (auto& c : clocks) c = {1000 * unit(random), 50e-6 * unit(random)};
    const auto local = [&](int r, double us) { return us + clocks[r / 4].offset + clocks[r / 4].drift * us; };
    TimelineBuilder t;
    std::vector<int32_t> list;
    for (int r = 0; r < kRanks; ++r) list.push_back(r);
    const uint32_t all = t.Group("all", list);
    const CollectiveOp ops[] = {CollectiveOp::kAllReduce, CollectiveOp::kAllGather,
                                CollectiveOp::kBroadcast, CollectiveOp::kReduceScatter,
                                CollectiveOp::kReduce,    CollectiveOp::kAllToAllV,
                                CollectiveOp::kScatter,   CollectiveOp::kGather};
    std::vector<std::vector<double>> truth(kRanks);
    for (int i = 0; i < 120; ++i) {
      const CollectiveOp op = ops[i % 8];
      const int root = (i / 8) % kRanks;
      const double transfer = 80 * (1 + (i / 16) % 3) * (1 + 0.03 * normal(random)), at = 20'000.0 * i;
      double start[kRanks], last = 0;
      for (double& s : start) {
        s = at + 600 * one(random);
        last = std::max(last, s);
      }
      const bool from_root = op == CollectiveOp::kBroadcast || op == CollectiveOp::kScatter,
                 to_root = op == CollectiveOp::kReduce || op == CollectiveOp::kGather;
      for (int r = 0; r < kRanks; ++r) {
        double needed = last;
        if (from_root) needed = start[root];
        if (to_root) needed = r == root ? last : start[r];
        const double wait = std::max(0.0, needed - start[r]);
        const double end = start[r] + wait + transfer + 3 * one(random);
        truth[static_cast<size_t>(r)].push_back(wait);
        const bool rooted = from_root || to_root;
        t.Rank(r, "host" + std::to_string(r / 4))
            .Communication({.op = op,
                            .group = all,
                            .source = capture::MatchSource::kGroupSequence,
                            .sequence = i,
                            .bytes = rooted ? 1 << 20 : 1 << 22,
                            .root = rooted ? root : -1},
                           local(r, start[r]), local(r, end) - local(r, start[r]));
      }
    }
    const Timed a(t.Build());
    for (size_t r = 0; r < kRanks; ++r) {
      for (size_t i = 0; i < truth[r].size(); ++i) {
        ++members;
        if (!a.times.parts[r][i].split) {
          ++unsplit;
          continue;
        }
        errors.push_back(std::fabs(static_cast<double>(a.Wait(r, i).ns()) / 1000 - truth[r][i]));
      }
    }
  }
  std::sort(errors.begin(), errors.end());
  const double p99 = errors[errors.size() * 99 / 100];
  std::cout << "wait/transfer split on clocks 1 ms off: median error " << errors[errors.size() / 2]
            << " us, p99 " << p99 << " us, " << unsplit << " of " << members << " unsplit\n";
  EXPECT_LE(p99, 20);
}

TEST(Collectives, CausedWaitingSumsToTotalWaiting) {
  std::mt19937 random(9);
  for (int trial = 0; trial < 50; ++trial) {
    TimelineBuilder t;
    const uint32_t all = t.Group("all", {0, 1, 2, 3});
    for (int r = 0; r < 4; ++r) {
      double now = 0;
      for (int i = 0; i < 10; ++i) {
        const double end = 400.0 * (i + 1);
        const double start = now + static_cast<double>(random() % 300);
        t.Rank(r).AllReduce(all, start, end - start);
        now = end;
      }
    }
    const Timed a(t.Build());
    Nanos waited, caused;
    for (size_t r = 0; r < 4; ++r) {
      caused += a.times.caused_wait[r];
      for (const Part& p : a.times.parts[r]) waited += p.wait;
    }
    EXPECT_EQ(waited, caused);
  }
}

TEST(CollectiveTable, BandwidthsFollowNcclTestsFormulas) {
  TimelineBuilder t;
  const uint32_t all = t.Group("dp", {0, 1, 2, 3});
  for (int r = 0; r < 4; ++r) {
    t.Rank(r).AllReduce(all, 0, 100, 1'000'000);
    t.Rank(r).Communication({.op = CollectiveOp::kAllGather, .group = all, .bytes = 1'000'000}, 200, 100);
  }
  const Timed a(t.Build());
  const auto table = SummarizeCollectives(a.capture, a.matches, a.clock, a.times);
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table[0].op, CollectiveOp::kAllReduce);
  EXPECT_DOUBLE_EQ(table[0].algorithm_gbps.value(), 10.0);  // 1 MB in 100 us
  EXPECT_DOUBLE_EQ(table[0].bus_gbps.value(), 15.0);        // 2 * 3 / 4
  EXPECT_DOUBLE_EQ(table[1].algorithm_gbps.value(), 40.0);  // four parts of 1 MB
  EXPECT_DOUBLE_EQ(table[1].bus_gbps.value(), 30.0);        // 3 / 4
}

TEST(CollectiveTable, AKernelOfSeveralMessagesCountsItsTimeOnce) {
  const Timed a(TwoMessagesInOneKernel());
  const auto table = SummarizeCollectives(a.capture, a.matches, a.clock, a.times);
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table[0].count, 2u);
  EXPECT_EQ(table[0].duration, Nanos::Micros(190));
  EXPECT_EQ(table[0].wait, Nanos::Micros(80));
  EXPECT_EQ(table[0].transfer, Nanos::Micros(110));
}

TEST(CollectiveTable, BandwidthIsUnknownWithoutBytes) {
  TimelineBuilder t;
  const uint32_t all = t.Group("dp", {0, 1});
  t.Rank(0).AllReduce(all, 0, 100);
  t.Rank(1).AllReduce(all, 50, 50);
  const Timed a(t.Build());
  const auto table = SummarizeCollectives(a.capture, a.matches, a.clock, a.times);
  ASSERT_EQ(table.size(), 1u);
  EXPECT_FALSE(table[0].bytes.has_value());
  EXPECT_FALSE(table[0].bus_gbps.has_value());
  EXPECT_EQ(table[0].wait, Nanos::Micros(50));
  EXPECT_EQ(table[0].skew_max, Nanos::Micros(50));
  EXPECT_THAT(table[0].last_arrivals, testing::ElementsAre(testing::Pair(1u, 1u)));
}

}  // namespace
}  // namespace lockstep::analysis
