#include "analysis/replay/contention.h"

#include <random>
#include <string>

#include "analysis/gains/gains.h"
#include "analysis/replay/prepared.h"
#include "capture/model/timeline_builder_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

using capture::TimelineBuilder;

// Two ranks compute eight kernels per step beside one all-reduce. They enter it together, except for the
// delay of rank 0's first kernel. Kernels lose `share` of their time beside it. This is the model, run
// forward; times are microseconds.
struct ContentionJob {
  double slow = 1;  // rank 0's first kernel takes this many times as long
  double share = 0.2;
  double noise = 0.005;
  uint64_t seed = 1;
  double second_size = 1;  // every second kernel works this many times as long, under the same name

  static constexpr int kSteps = 10, kKernels = 8;
  static constexpr double kWork = 100, kTransfer = 150;

  // Runs the kernels one after the other from `at` on, with the collective beside them from `begin` to `end`.
  // Stores the end of the last one.
  void RunKernels(capture::RankTimeline& rank, double at, double begin, double end, std::mt19937_64& random,
                  double* last) const {
    for (int k = 0; k < kKernels; ++k) {
      double left = kWork * (k % 2 == 0 ? 1 : second_size) *
                    (1 + noise * std::normal_distribution<double>()(random)),
             t = at;
      const double before = std::max(0.0, std::min(left, begin - t));
      left -= before;
      t += before;
      if (left > 0 && t < end) {
        const double done = std::min(left, (end - t) * (1 - share));
        t += done / (1 - share);
        left -= done;
      }
      t += left;
      rank.Kernel("gemm", at, t - at, 7);
      at = t + 1;
    }
    *last = at;
  }

  // Returns the length of a step.
  double Into(TimelineBuilder& t) const {
    const uint32_t all = t.Group("all", {0, 1});
    std::mt19937_64 random(seed);
    double at = 10;
    const double first = at;
    for (int step = 0; step < kSteps; ++step) {
      double arrive[2], last[2];
      for (int r = 0; r < 2; ++r) {
        const double work = 200 * (r == 0 ? slow : 1.0);
        t.Rank(r).Kernel("first", at, work, 7);
        arrive[r] = at + work + 1;
      }
      const double end = std::max(arrive[0], arrive[1]) + kTransfer;
      for (int r = 0; r < 2; ++r) {
        t.Rank(r).AllReduce(all, arrive[r], end - arrive[r], 1 << 20);
        RunKernels(t.Rank(r), arrive[r], arrive[r], end, random, &last[r]);
      }
      const double next = std::max({last[0], last[1], end}) + 1;
      for (int r = 0; r < 2; ++r) {
        t.Rank(r).AllReduce(all, last[r], next + 20 - last[r], 8);
        t.Rank(r).Step(step, at, next + 20 - at);
      }
      at = next + 22;
    }
    return (at - first) / kSteps;
  }
};

TEST(Contention, RemovesTheContentionOfCollectivesAndReplaysExactly) {
  TimelineBuilder t;
  (ContentionJob{.slow = 2}).Into(t);
  const capture::Capture capture = t.Build();
  const Prepared prepared(capture, 1);
  const Graph graph = BuildGraph(prepared.input());
  ASSERT_FALSE(graph.occupying.empty());
  double work = 0, contention = 0;
  int kernels = 0;
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    if (graph.units[u].kind != UnitKind::kKernel) continue;
    EXPECT_EQ(graph.work[u] + graph.contention[u], graph.end[u] - graph.start[u]);
    if (graph.contention_share[u] == 0) continue;
    EXPECT_NEAR(graph.contention_share[u], 0.2, 0.02);
    work += graph.work[u];
    contention += graph.contention[u];
    ++kernels;
  }
  EXPECT_EQ(kernels, 2 * ContentionJob::kSteps * ContentionJob::kKernels);
  EXPECT_NEAR(work / kernels, 100'000, 500) << "alone";
  EXPECT_GT(contention, 0);
  const Schedule schedule(graph, prepared.steps.count(), FirstEnd(graph, prepared.input()));
  Replay replay(schedule);
  Timing timing = ObservedTiming(graph);
  replay.Run(timing);
  for (uint32_t u = 0; u < graph.units.size(); ++u) ASSERT_EQ(replay.At(EndOf(u)), graph.end[u]);
  std::vector<uint32_t> changed;
  ContentionPlacer(schedule).Place(replay, timing, changed);
  EXPECT_TRUE(changed.empty()) << "observed times do not move";
}

// A library runs one kernel for products of several sizes.
TEST(Contention, IsMeasuredForEachSizeOfAKernel) {
  TimelineBuilder t;
  (ContentionJob{.slow = 2, .second_size = 2}).Into(t);
  const capture::Capture capture = t.Build();
  const Prepared prepared(capture, 1);
  const Graph graph = BuildGraph(prepared.input());
  ASSERT_FALSE(graph.occupying.empty());
  double contention = 0;
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    if (graph.units[u].kind != UnitKind::kKernel || graph.contention[u] == 0) continue;
    EXPECT_NEAR(graph.contention_share[u], 0.2, 0.03);
    contention += graph.contention[u];
  }
  EXPECT_GT(contention, 0);
}

TEST(Contention, FixingARankSpeedsUpKernelsThatOverlappedWaitingForIt) {
  for (const double slow : {1.5, 2.0, 3.0}) {
    TimelineBuilder faulty, healthy;
    const double with = (ContentionJob{.slow = slow}).Into(faulty), without = ContentionJob().Into(healthy);
    const capture::Capture capture = faulty.Build();
    const Prepared prepared(capture, 1);
    const GraphInput input = prepared.input();
    Gains gains(input);
    gains.Measure();
    const std::vector<double> gain = gains.Of({.rank_indices = {0}, .owners = {}});
    double mean = 0;
    for (double g : gain) mean += g / static_cast<double>(gain.size());
    EXPECT_NEAR(mean / 1e3, with - without, 0.03 * (with - without) + 1) << slow;
  }
}

TEST(Contention, KernelsThatCollectivesDoNotSlowHaveNoContention) {
  TimelineBuilder t;
  (ContentionJob{.slow = 2, .share = 0}).Into(t);
  const capture::Capture capture = t.Build();
  const Prepared prepared(capture, 1);
  const Graph graph = BuildGraph(prepared.input());
  EXPECT_TRUE(graph.occupying.empty());
  for (double b : graph.contention) EXPECT_EQ(b, 0);
}

}  // namespace
}  // namespace lockstep::analysis
