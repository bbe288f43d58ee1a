#include "analysis/replay/graph.h"

#include <memory>
#include <random>

#include "analysis/compare/classes.h"
#include "analysis/compare/typical.h"
#include "analysis/replay/attribution.h"
#include "analysis/replay/line_replay.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/schedule.h"
#include "capture/model/timeline_builder_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

using capture::CollectiveOp;
using capture::TimelineBuilder;

// The inputs of the graph, which live as long as it does.
struct Built {
  capture::Capture capture;
  capture::Matches matches;
  capture::ClockModel clock;
  CollectiveTimes times;
  std::vector<CallIndex> calls;
  Steps steps;
  std::unique_ptr<CallNames> names;
  std::unique_ptr<GraphInput> input;
  Graph graph;
  std::unique_ptr<Schedule> schedule;

  explicit Built(capture::Capture c) : capture(std::move(c)) {
    matches = capture::Match(capture);
    clock = capture::EstimateClocks(capture, matches);
    times = TimeCollectives(capture, matches, clock);
    for (const auto& rank : capture.ranks) calls.emplace_back(rank);
    steps = FindSteps(capture, clock, calls);
    names = std::make_unique<CallNames>(capture);
    input.reset(new GraphInput{capture, matches, clock, times, steps, calls, names.get()});
    graph = BuildGraph(*input);
    schedule = std::make_unique<Schedule>(graph, steps.count(), FirstEnd(graph, *input));
  }
  Replay MakeReplay() const { return Replay(*schedule); }
  // The unit of a rank's n-th device activity, in order of time.
  uint32_t Device(uint32_t rank, uint32_t n) const {
    for (uint32_t u = 0; u < graph.units.size(); ++u) {
      const Unit& unit = graph.units[u];
      const bool device = unit.kind != UnitKind::kHostCall && unit.kind != UnitKind::kHostWait;
      if (unit.rank_index == rank && device && unit.source == n) return u;
    }
    return capture::kNone;
  }
};

void ExpectIdentity(const Built& b) {
  Replay replay = b.MakeReplay();
  const Durations timing(b.graph);
  replay.Run(timing);
  for (uint32_t u = 0; u < b.graph.units.size(); ++u) {
    ASSERT_EQ(replay.At(StartOf(u)), b.graph.start[u]);
    ASSERT_EQ(replay.At(EndOf(u)), b.graph.end[u]);
  }
}

TEST(Graph, AnUnchangedReplayReturnsTheRecordedTimesExactly) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 200; ++trial) {
    TimelineBuilder t;
    const uint32_t all = t.Group("all", {0, 1, 2});
    for (int r = 0; r < 3; ++r) {
      capture::RankTimeline& rank = t.Rank(r, trial % 2 == 0 ? "one" : "host" + std::to_string(r));
      double now = static_cast<double>(random() % 50);
      for (int i = 0; i < 30; ++i) {
        now += static_cast<double>(random() % 9000) / 1000.0;
        const double launch = random() % 5 == 0 ? -1 : now - static_cast<double>(random() % 4000) / 1000.0;
        switch (random() % 6) {
          case 0:
            rank.AllReduce(all, now, static_cast<double>(random() % 20000) / 1000.0);
            break;
          case 1:
            rank.Copy(8, now, 3, 9, launch);
            break;
          case 2:
            rank.StreamSynchronize(7, now, static_cast<double>(random() % 8000) / 1000.0);
            break;
          case 3:
            rank.Api("cudaDeviceSynchronize", now, 2);
            break;
          case 4:
            rank.Communication({.op = CollectiveOp::kBroadcast, .group = all, .root = 1}, now, 4);
            break;
          // Records contradict each other in every way: overlaps on one stream, launches after starts, zero
          // lengths.
          default:
            rank.Kernel("k", now, static_cast<double>(random() % 12000) / 1000.0 - 1, random() % 2 ? 7 : 8,
                        launch);
        }
      }
    }
    ExpectIdentity(Built(t.Build()));
  }
}

TEST(Graph, ALongerKernelDelaysItsStreamAndItsPartners) {
  TimelineBuilder t;
  const uint32_t pair = t.Group("pair", {0, 1});
  for (int r = 0; r < 2; ++r)
    t.Rank(r).Kernel("k", 0, 100, 15).AllReduce(pair, 102, 30).Kernel("after", 134, 20, 15);
  const Built b(t.Build());
  Replay replay = b.MakeReplay();
  Timing timing = ObservedTiming(b.graph);
  timing.work[b.Device(0, 0)] += 50'000;
  replay.Run(timing);
  for (uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(replay.At(EndOf(b.Device(r, 1))), 182'000);
    EXPECT_EQ(replay.At(EndOf(b.Device(r, 2))), 204'000);
  }
  EXPECT_EQ(replay.At(StartOf(b.Device(1, 1))), 102'000) << "the other rank is early and waits";
}

TEST(Graph, ABlockingCallEndsWithItsAwaitedWork) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 10, 100, 7, 5).StreamSynchronize(7, 20, 92).Kernel("next", 130, 10, 7, 120);
  const Built b(t.Build());
  Replay replay = b.MakeReplay();
  Timing timing = ObservedTiming(b.graph);
  timing.work[b.Device(0, 0)] = 60'000;
  replay.Run(timing);
  EXPECT_EQ(replay.At(StartOf(b.Device(0, 1))), b.graph.start[b.Device(0, 1)] - 40'000);
}

// Profilers place a device's timer some microseconds off its host's clock.
TEST(Graph, RecordedDependenciesOverrideSkewedDeviceStamps) {
  for (const double late : {-15.0, 15.0}) {
    TimelineBuilder t;
    t.Rank(0)
        .Kernel("k", 10 + late, 100, 7, 5)
        .StreamSynchronize(7, 20, 92)
        .Kernel("next", 130 + late, 10, 7, 120);
    const Built b(t.Build());
    EXPECT_EQ(b.graph.cut_edges, 0u) << late;
    ExpectIdentity(b);
    Replay replay = b.MakeReplay();
    Timing timing = ObservedTiming(b.graph);
    timing.work[b.Device(0, 0)] = 60'000;
    replay.Run(timing);
    EXPECT_EQ(replay.At(StartOf(b.Device(0, 1))), b.graph.start[b.Device(0, 1)] - 40'000) << late;
  }
}

// Another thread's launch comes in between. The call cannot have waited for it, so it waited for the one
// before.
TEST(Graph, AssignsAnImpossibleWaitToTheEarlierLaunch) {
  TimelineBuilder t;
  t.Rank(0)
      .Kernel("k", 10, 100, 7, 5)
      .Kernel("others", 111, 300, 7, 18)
      .StreamSynchronize(7, 20, 92)
      .Kernel("next", 130, 10, 9, 120);
  const Built b(t.Build());
  EXPECT_EQ(b.graph.cut_edges, 1u);
  ExpectIdentity(b);
  Replay replay = b.MakeReplay();
  Timing timing = ObservedTiming(b.graph);
  timing.work[b.Device(0, 0)] = 60'000;
  replay.Run(timing);
  EXPECT_EQ(replay.At(StartOf(b.Device(0, 2))), b.graph.start[b.Device(0, 2)] - 40'000);
}

TEST(Graph, AFasterDeviceShortensLaunchesIntoAFullQueue) {
  TimelineBuilder t;
  capture::RankTimeline& rank = t.Rank(0);
  // The queue has 20 places. The host runs ahead, then each launch waits until a kernel of 100 us ends.
  for (int i = 0; i < 80; ++i) {
    const double launched = i < 20 ? 5.0 * i : 101.0 * (i - 19) + 10 - 95;
    rank.Kernel("k", 10 + 101.0 * i, 100, 7, launched);
    rank.data().api_calls.back().end = rank.data().api_calls.back().start + Nanos::Micros(i < 20 ? 3 : 97);
  }
  const Built b(t.Build());
  ExpectIdentity(b);
  Replay replay = b.MakeReplay();
  Timing timing = ObservedTiming(b.graph);
  for (int i = 0; i < 80; ++i) timing.work[b.Device(0, static_cast<uint32_t>(i))] = 50'000;
  replay.Run(timing);
  EXPECT_NEAR(replay.At(EndOf(b.Device(0, 79))), 10'000 + 80 * 51'000, 5'000)
      << "the host does not hold it up";
}

TEST(Graph, AStreamWaitsForTheEventThatWasRecordedOnAnother) {
  TimelineBuilder t;
  capture::RankTimeline& rank = t.Rank(0);
  rank.Kernel("producer", 10, 100, 7, 5).Api("cudaEventRecord", 8, 1);
  rank.data().event_records.push_back({rank.data().api_calls.back().correlation, StreamId(7), 3});
  rank.Api("cudaStreamWaitEvent", 10, 1);
  rank.data().syncs.push_back({.start = TimelineBuilder::At(10),
                               .end = TimelineBuilder::At(11),
                               .correlation = rank.data().api_calls.back().correlation,
                               .stream = StreamId(20),
                               .event = 3,
                               .type = capture::SyncType::kStreamWaitEvent});
  rank.Kernel("consumer", 140, 10, 20, 12);
  const Built b(t.Build());
  Replay replay = b.MakeReplay();
  Timing timing = ObservedTiming(b.graph);
  timing.work[b.Device(0, 0)] += 25'000;
  replay.Run(timing);
  EXPECT_EQ(replay.At(StartOf(b.Device(0, 1))), b.graph.start[b.Device(0, 1)] + 25'000);
}

TEST(Graph, InfersADependencyFromAWaitWithoutEventRecords) {
  TimelineBuilder t;
  t.Rank(0)
      .Kernel("producer", 10, 100, 7, 5)
      .Api("cudaStreamWaitEvent", 10, 1)
      .Kernel("consumer", 111, 10, 20, 12);
  t.Rank(0).Kernel("unrelated", 150, 10, 21, 13);
  const Built b(t.Build());
  Replay replay = b.MakeReplay();
  Timing timing = ObservedTiming(b.graph);
  timing.work[b.Device(0, 0)] += 25'000;
  replay.Run(timing);
  EXPECT_EQ(replay.At(StartOf(b.Device(0, 1))), b.graph.start[b.Device(0, 1)] + 25'000);
  EXPECT_EQ(replay.At(StartOf(b.Device(0, 2))), b.graph.start[b.Device(0, 2)]);
}

TEST(Graph, InfersDependenciesBetweenStreamsWithoutHostRecords) {
  TimelineBuilder t;
  t.Rank(0).Kernel("fetch", 0, 500, 8).Kernel("compute", 495, 100, 7).Kernel("unrelated", 700, 100, 7);
  Built b(t.Build());
  ExpectIdentity(b);
  Replay replay = b.MakeReplay();
  Timing timing = ObservedTiming(b.graph);
  timing.work[b.Device(0, 0)] -= 300e3;
  replay.Run(timing);
  EXPECT_EQ(replay.At(StartOf(b.Device(0, 1))), 195e3);
  EXPECT_EQ(replay.At(EndOf(b.Device(0, 2))), 500e3);
}

TEST(Graph, ALateReceiverDoesNotDelayItsSender) {
  TimelineBuilder t;
  const uint32_t pair = t.Group("stages", {0, 1});
  t.Rank(0)
      .Communication({.op = CollectiveOp::kSend, .group = pair, .peer = 1}, 50, 20)
      .Kernel("next", 71, 10, 15);
  t.Rank(1)
      .Kernel("k", 0, 10, 15)
      .Communication({.op = CollectiveOp::kReceive, .group = pair, .peer = 0}, 11, 60);
  const Built b(t.Build());
  Replay replay = b.MakeReplay();
  Timing timing = ObservedTiming(b.graph);
  timing.work[b.Device(1, 0)] += 500'000;
  replay.Run(timing);
  EXPECT_EQ(replay.At(EndOf(b.Device(0, 1))), b.graph.end[b.Device(0, 1)]);
  timing = ObservedTiming(b.graph);
  timing.lag[b.Device(0, 0)] += 30'000;
  replay.Run(timing);
  EXPECT_EQ(replay.At(EndOf(b.Device(1, 1))), b.graph.end[b.Device(1, 1)] + 30'000);
}

TEST(Graph, AKernelOfSeveralMessagesAwaitsAllPartners) {
  TimelineBuilder t;
  const uint32_t stages = t.Group("stages", {0, 1, 2});
  const auto message = [&](CollectiveOp op, int32_t peer) {
    return capture::CollectiveSpec{.op = op, .group = stages, .peer = peer};
  };
  t.Rank(0).Kernel("k", 0, 29, 15).Communication(message(CollectiveOp::kSend, 1), 30, 20);
  t.Rank(1)
      .Communication(message(CollectiveOp::kReceive, 0), 0, 100)
      .AndCollective(message(CollectiveOp::kReceive, 2));
  t.Rank(2).Kernel("k", 0, 79, 15).Communication(message(CollectiveOp::kSend, 1), 80, 20);
  const Built b(t.Build());
  ExpectIdentity(b);
  const uint32_t kernel = b.Device(1, 0);
  const uint32_t n = b.graph.units[kernel].instance;
  ASSERT_NE(n, capture::kNone);
  EXPECT_EQ(b.matches.instances[n].members[1].rank_index, 2u) << "this message arrived last";
  Replay replay = b.MakeReplay();
  Timing timing = ObservedTiming(b.graph);
  timing.work[b.Device(0, 0)] += 40'000;  // rank 0 still comes before rank 2
  replay.Run(timing);
  EXPECT_EQ(replay.At(EndOf(kernel)), b.graph.end[kernel]);
  timing.work[b.Device(0, 0)] += 40'000;  // now 30 us after it
  replay.Run(timing);
  EXPECT_EQ(replay.At(EndOf(kernel)), b.graph.end[kernel] + 30'000);
}

TEST(Graph, CutsAndCountsContradictedEdges) {
  TimelineBuilder t;
  t.Rank(0).Kernel("long", 0, 100).Kernel("inside", 20, 10).Kernel("early", 200, 10, 7, 290);
  const Built b(t.Build());
  EXPECT_EQ(b.graph.cut_edges, 2u);
  ExpectIdentity(b);
}

TEST(Graph, CyclicRecordsDoNotHang) {
  TimelineBuilder t;
  const uint32_t a = t.Group("a", {0, 1});
  // Both ranks run two operations in opposite orders on the same stream. Only damaged records have such a
  // cycle.
  const auto first =
      capture::CollectiveSpec{.group = a, .source = capture::MatchSource::kNcclSequence, .sequence = 1};
  const auto second =
      capture::CollectiveSpec{.group = a, .source = capture::MatchSource::kNcclSequence, .sequence = 2};
  t.Rank(0).Communication(first, 0, 50).Communication(second, 60, 50);
  t.Rank(1).Communication(second, 0, 90).Communication(first, 100, 50);
  const Built b(t.Build());
  EXPECT_GT(b.graph.cut_edges, 0u);
  ExpectIdentity(b);
}

// Steps of compute and an all-reduce on `ranks` ranks, with launches ahead and a synchronisation at the end.
// `slow_rank` takes `factor` times as long.
capture::Capture Training(int ranks, int steps, std::mt19937& random, double noise, int slow_rank,
                          double factor) {
  std::normal_distribution<double> normal(0, 1);
  TimelineBuilder t;
  std::vector<int32_t> members;
  for (int r = 0; r < ranks; ++r) members.push_back(r);
  const uint32_t all = t.Group("dp", members);
  double begin = 0;
  for (int r = 0; r < ranks; ++r) t.Rank(r).Kernel("warm up", -50, 10, 15, -60);
  for (int s = 0; s < steps; ++s) {
    std::vector<double> arrive;
    double last = 0;
    for (int r = 0; r < ranks; ++r) {
      capture::RankTimeline& rank = t.Rank(r);
      rank.Step(s, begin, 0);
      double now = begin + 20;
      for (int k = 0; k < 5; ++k) {
        const double duration = (100 + 50 * k) * (1 + noise * normal(random)) * (r == slow_rank ? factor : 1);
        rank.Kernel("gemm" + std::to_string(k), now, duration, 15, begin + 3 * k + 1);
        now += duration + 2;
      }
      arrive.push_back(now);
      last = std::max(last, now);
    }
    const double end = last + 40;
    for (int r = 0; r < ranks; ++r) {
      t.Rank(r).Communication({.group = all, .bytes = 1 << 20}, arrive[static_cast<size_t>(r)],
                              end - arrive[static_cast<size_t>(r)], 15, begin + 18);
      t.Rank(r).StreamSynchronize(15, begin + 22, end + 3 - begin - 22);
      t.Rank(r).data().ranges.back().end = TimelineBuilder::At(end + 5);
    }
    begin = end + 10;
  }
  return t.Build();
}

TEST(Typical, MakingASlowRankTypicalRemovesItsCost) {
  for (const double factor : {1.05, 1.2, 1.5}) {
    std::mt19937 random(12);
    const Built slow(Training(4, 12, random, 0.01, 2, factor));
    random.seed(12);
    const Built healthy(Training(4, 12, random, 0.01, -1, 1));
    Replay of_slow = slow.MakeReplay(), of_healthy = healthy.MakeReplay();
    of_slow.Run(ObservedTiming(slow.graph));
    of_healthy.Run(ObservedTiming(healthy.graph));
    const double truth = of_slow.StepTime() - of_healthy.StepTime();
    const Classes classes = Classify(slow.graph, *slow.input);
    const TypicalValues typical(slow.graph, classes, true);
    const double before = of_slow.StepTime();
    Timing timing = ObservedTiming(slow.graph);
    typical.MakeTypical({.rank_indices = {2}, .owners = {}}, timing);
    of_slow.Run(timing);
    EXPECT_NEAR(before - of_slow.StepTime(), truth, 0.05 * truth + 1500);
  }
}

TEST(Typical, AHealthyRankBarelyChanges) {
  std::mt19937 random(3);
  const Built b(Training(4, 20, random, 0.01, -1, 1));
  const Classes classes = Classify(b.graph, *b.input);
  const TypicalValues typical(b.graph, classes, true);
  Replay replay = b.MakeReplay();
  replay.Run(Durations(b.graph));
  const double before = replay.StepTime();
  for (uint32_t r = 0; r < 4; ++r) {
    Timing timing = ObservedTiming(b.graph);
    typical.MakeTypical({.rank_indices = {r}, .owners = {}}, timing);
    replay.Run(timing);
    EXPECT_NEAR(replay.StepTime(), before, 0.005 * before);
  }
}

TEST(LineReplay, EachPointEqualsAReplayOfItsTiming) {
  for (int seed = 0; seed < 12; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const Built b(Training(3 + seed % 4, 6, random, 0.05, seed % 3, 1 + 0.02 * seed));
    const Timing ideal = TypicalValues(b.graph, Classify(b.graph, *b.input), true).Ideal();
    const Timing observed = ObservedTiming(b.graph);
    LineReplay line(*b.schedule, ideal, observed);
    PathFinder paths(*b.schedule);
    Replay replay = b.MakeReplay();
    for (const std::vector<double>& points : {std::vector<double>{0, 0.3}, {0.7, 1}, {0.5}, {1, 0.25}}) {
      line.Run(points);
      for (size_t k = 0; k < points.size(); ++k) {
        Timing mixed = ideal;
        for (size_t u = 0; u < b.graph.units.size(); ++u) {
          mixed.lag[u] += points[k] * (observed.lag[u] - ideal.lag[u]);
          mixed.work[u] += points[k] * (observed.work[u] - ideal.work[u]);
        }
        replay.Run(mixed);
        EXPECT_NEAR(line.TotalTime(k), replay.TotalTime(), 1e-4);
        for (NodeRef n = 0; n < 2 * b.graph.units.size(); ++n)
          ASSERT_NEAR(line.MomentsOf(k)[n], replay.At(n), 1e-4) << n;
        const std::vector<PathNode> found = paths.Find(line.MomentsOf(k), line.End(k)),
                                    wanted = replay.CriticalPath();
        ASSERT_EQ(found.size(), wanted.size());
        for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].node, wanted[i].node);
      }
    }
  }
}

TEST(Attribution, SharesSumExactlyToTheLostTime) {
  for (int seed = 0; seed < 30; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const Built b(Training(3 + seed % 4, 6, random, 0.05, seed % 3, 1 + 0.02 * seed));
    const Classes classes = Classify(b.graph, *b.input);
    const TypicalValues typical(b.graph, classes, true);
    Replay replay = b.MakeReplay();
    const Timing ideal = typical.Ideal();
    replay.Run(ideal);
    const double at_ideal = replay.StepTime();
    replay.Run(Durations(b.graph));
    const double lost = (replay.StepTime() - at_ideal) * static_cast<double>(b.steps.count());
    const Attribution split = Attribute(*b.schedule, ideal, {.tolerance = 1e-6});
    double sum = 0;
    for (double c : split.cost) sum += c;
    EXPECT_NEAR(split.lost, lost, 1e-3);
    EXPECT_NEAR(sum, lost, 1e-6 * std::abs(lost) + 1e-3);
  }
}

TEST(Attribution, ChargesTheSlowRank) {
  std::mt19937 random(7);
  const Built b(Training(4, 10, random, 0.01, 1, 1.2));
  const Classes classes = Classify(b.graph, *b.input);
  const TypicalValues typical(b.graph, classes, true);
  const Attribution split = Attribute(*b.schedule, typical.Ideal(), {});
  std::vector<double> by_rank(4);
  for (uint32_t u = 0; u < b.graph.units.size(); ++u) by_rank[b.graph.units[u].rank_index] += split.cost[u];
  EXPECT_GT(by_rank[1], 0.8 * split.lost);
}

}  // namespace
}  // namespace lockstep::analysis
