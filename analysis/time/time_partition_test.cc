#include "analysis/time/time_partition.h"

#include <array>
#include <random>

#include "capture/model/timeline_builder_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

using capture::TimelineBuilder;

struct Analysed {
  capture::Capture capture;
  capture::Matches matches;
  CollectiveTimes times;
};

Analysed Timed(capture::Capture capture) {
  Analysed a{std::move(capture), {}, {}};
  a.matches = capture::Match(a.capture);
  a.times = TimeCollectives(a.capture, a.matches, capture::EstimateClocks(a.capture, a.matches));
  return a;
}

TimePartition PartitionOf(const Analysed& a, size_t rank) {
  return PartitionTime(a.capture, a.capture.ranks[rank], a.times.parts[rank]);
}

void ExpectSumsToSpan(const TimePartition& p) {
  EXPECT_EQ(p.compute + p.exposed_transfer + p.exposed_wait + p.exposed_unsplit + p.exposed_memory + p.idle,
            p.span);
  EXPECT_EQ(p.exposed_communication, p.communication - p.overlap);
}

// Counts nanosecond by nanosecond, by the definitions of the contract.
TimePartition BruteForce(const capture::RankData& rank, const std::vector<Part>& parts) {
  TimePartition out;
  const HostTime first = rank.activities.front().start;
  HostTime last = first;
  for (const auto& a : rank.activities) last = std::max(last, a.end);
  out.span = last - first;
  for (HostTime t = first; t < last; t += Nanos(1)) {
    bool compute = false, communication = false, memory = false, wait = false, transfer = false,
         unsplit = false;
    for (const auto& a : rank.activities) {
      if (t < a.start || t >= a.end) continue;
      if (a.kind != capture::ActivityKind::kKernel)
        memory = true;
      else if (!a.communication)
        compute = true;
      else
        communication = true;
      if (!a.communication) continue;
      const Part& part = parts[a.collective];
      if (!part.split)
        unsplit = true;
      else
        (t < a.start + part.wait ? wait : transfer) = true;
    }
    const Nanos one(1);
    if (compute) out.compute += one;
    if (communication) out.communication += one;
    if (memory) out.memory += one;
    if (compute && communication) out.overlap += one;
    if (compute) continue;
    if (transfer)
      out.exposed_transfer += one;
    else if (wait)
      out.exposed_wait += one;
    else if (unsplit)
      out.exposed_unsplit += one;
    else if (memory && !communication)
      out.exposed_memory += one;
    else if (!communication && !memory)
      out.idle += one;
  }
  return out;
}

TEST(TimePartition, AgreesWithCountingEveryNanosecondOnRandomTimelines) {
  std::mt19937 random(5);
  const auto drawn = [&](int below) {
    return static_cast<double>(random() % static_cast<unsigned>(below)) / 1000.0;
  };
  for (int trial = 0; trial < 300; ++trial) {
    TimelineBuilder t;
    const uint32_t pair = t.Group("pair", {0, 1});
    const uint32_t alone = t.Group("absent", {0, 1, 2});
    std::array<double, 2> clock = {0, 0};
    for (int i = 0; i < 6; ++i) {
      const double common = drawn(120);
      for (int r = 0; r < 2; ++r) {
        capture::RankTimeline& rank = t.Rank(r);
        rank.Kernel("k", clock[r] + drawn(60), drawn(90), 7);
        if (random() % 2 == 0) rank.Copy(64, clock[r] + drawn(90), drawn(70));
        rank.AllReduce(pair, clock[r] + drawn(80), common + drawn(60) + 0.001);
        if (random() % 3 == 0) rank.Communication({.group = alone}, clock[r] + drawn(80), drawn(50), 16);
        clock[r] += 0.15;
      }
    }
    const Analysed a = Timed(t.Build());
    for (size_t r = 0; r < 2; ++r) {
      const TimePartition p = PartitionOf(a, r);
      const TimePartition truth = BruteForce(a.capture.ranks[r], a.times.parts[r]);
      ExpectSumsToSpan(p);
      EXPECT_EQ(p.span, truth.span);
      EXPECT_EQ(p.compute, truth.compute);
      EXPECT_EQ(p.communication, truth.communication);
      EXPECT_EQ(p.memory, truth.memory);
      EXPECT_EQ(p.overlap, truth.overlap);
      EXPECT_EQ(p.exposed_transfer, truth.exposed_transfer);
      EXPECT_EQ(p.exposed_wait, truth.exposed_wait);
      EXPECT_EQ(p.exposed_unsplit, truth.exposed_unsplit);
      EXPECT_EQ(p.exposed_memory, truth.exposed_memory);
      EXPECT_EQ(p.idle, truth.idle);
    }
  }
}

TEST(TimePartition, WaitAndTransferAreUnknownWhenNothingCouldBeSplit) {
  TimelineBuilder t;
  const uint32_t group = t.Group("half seen", {0, 1});
  t.Rank(0).Kernel("k", 0, 10).AllReduce(group, 10, 30);
  const Analysed a = Timed(t.Build());
  const TimePartition p = PartitionOf(a, 0);
  EXPECT_FALSE(p.wait.has_value());
  EXPECT_FALSE(p.transfer.has_value());
  EXPECT_EQ(p.unsplit, Nanos::Micros(30));
  EXPECT_EQ(p.exposed_unsplit, Nanos::Micros(30));
  ExpectSumsToSpan(p);
}

TEST(TimePartition, WithoutCommunicationThereIsNoWaitAndOverlapIsUnknown) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 10).Copy(8, 15, 5);
  const Analysed a = Timed(t.Build());
  const TimePartition p = PartitionOf(a, 0);
  EXPECT_EQ(p.wait, Nanos());
  EXPECT_FALSE(p.overlap_fraction.has_value());
  EXPECT_EQ(p.exposed_memory, Nanos::Micros(5));
  EXPECT_EQ(p.idle, Nanos::Micros(5));
}

// They are not waiting, although their lengths differ, and their partners are not searched.
TEST(TimePartition, CopiesOfACollectiveAreUnsplitCommunication) {
  TimelineBuilder t;
  const uint32_t pair = t.Group("pair", {0, 1});
  for (int r = 0; r < 2; ++r) {
    capture::RankTimeline& rank = t.Rank(r).Kernel("k", 0, 10).Copy(8, 10, 5).Copy(8, 10, 20 + 20 * r);
    rank.Communication(
        {.op = capture::CollectiveOp::kAllGather, .group = pair, .source = capture::MatchSource::kCopyEngine},
        10, 10);
    std::vector<capture::DeviceActivity>& activities = rank.data().activities;
    activities.pop_back();
    rank.data().collectives.back().activity = 2;
    activities[2].collective = 0;
    activities[1].communication = activities[2].communication = true;
  }
  const Analysed a = Timed(t.Build());
  EXPECT_TRUE(a.matches.instances.empty());
  EXPECT_EQ(a.matches.matched + a.matches.unmatched + a.matches.partner_lost, 0u);
  const TimePartition p = PartitionOf(a, 1);
  ExpectSumsToSpan(p);
  EXPECT_EQ(p.exposed_unsplit, Nanos::Micros(40));
  EXPECT_EQ(p.unsplit, Nanos::Micros(45));
  EXPECT_EQ(p.memory, Nanos());
  EXPECT_FALSE(p.wait.has_value());
}

TEST(TimePartition, AKernelOfSeveralMessagesCountsOnce) {
  TimelineBuilder t;
  const uint32_t stages = t.Group("stages", {0, 1, 2});
  const auto message = [&](capture::CollectiveOp op, int32_t peer) {
    return capture::CollectiveSpec{.op = op, .group = stages, .peer = peer};
  };
  t.Rank(0).Communication(message(capture::CollectiveOp::kSend, 1), 30, 70);
  t.Rank(1)
      .Communication(message(capture::CollectiveOp::kReceive, 0), 0, 100)
      .AndCollective(message(capture::CollectiveOp::kReceive, 2));
  t.Rank(2).Communication(message(capture::CollectiveOp::kSend, 1), 80, 20);
  const Analysed a = Timed(t.Build());
  const TimePartition p = PartitionOf(a, 1);
  EXPECT_EQ(p.wait, Nanos::Micros(80));
  EXPECT_EQ(p.transfer, Nanos::Micros(20));
  EXPECT_EQ(p.exposed_wait, Nanos::Micros(80));
  ExpectSumsToSpan(p);
}

TEST(TimePartition, AnEmptyRankHasNoTime) {
  TimelineBuilder t;
  t.Rank(0);
  const Analysed a = Timed(t.Build());
  ExpectSumsToSpan(PartitionOf(a, 0));
  EXPECT_EQ(PartitionOf(a, 0).span, Nanos());
}

TEST(TimePartition, ReversedAndEmptyRecordsCountNoTime) {
  TimelineBuilder t;
  const uint32_t pair = t.Group("pair", {0, 1});
  t.Rank(0).Kernel("k", 0, 10).Kernel("backwards", 20, -5).AllReduce(pair, 30, -7).Kernel("instant", 40, 0);
  t.Rank(1).Kernel("k", 0, 10).AllReduce(pair, 30, 5);
  const Analysed a = Timed(t.Build());
  ExpectSumsToSpan(PartitionOf(a, 0));
  ExpectSumsToSpan(PartitionOf(a, 1));
  EXPECT_EQ(PartitionOf(a, 0).compute, Nanos::Micros(10));
}

TEST(TimePartition, UtilisationIsUnknownWithoutDetails) {
  TimelineBuilder t;
  t.Rank(0).Kernel("sm90_xmma_gemm_bf16", 0, 30).Kernel("add", 60, 10);
  capture::Capture capture = t.Build();
  const Analysed bare = Timed(std::move(capture));
  const TimePartition p = PartitionOf(bare, 0);
  EXPECT_FALSE(p.sm_efficiency.has_value());
  EXPECT_FALSE(p.achieved_occupancy.has_value());
  EXPECT_DOUBLE_EQ(p.gpu_utilization.value(), 40.0 / 70.0);
  EXPECT_DOUBLE_EQ(p.tensor_core_fraction.value(), 0.75);
}

TEST(TimePartition, SmEfficiencySaturatesAtOneBlockPerMultiprocessor) {
  TimelineBuilder t;
  t.Rank(0).Kernel("wide", 0, 50).Kernel("narrow", 50, 50);
  capture::Capture capture = t.Build();
  capture::RankData& rank = capture.ranks[0];
  rank.properties.sms = 100;
  rank.kernel_details = {{.grid = {1000, 1, 1}}, {.grid = {50, 1, 1}}};
  rank.activities[0].detail = 0;
  rank.activities[1].detail = 1;
  const Analysed a = Timed(std::move(capture));
  EXPECT_DOUBLE_EQ(PartitionOf(a, 0).sm_efficiency.value(), 0.75);
}

}  // namespace
}  // namespace lockstep::analysis
