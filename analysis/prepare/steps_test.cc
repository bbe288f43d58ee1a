#include "analysis/prepare/steps.h"

#include <random>
#include <string>
#include <utility>

#include "analysis/time/step_breakdown.h"
#include "analysis/time/step_table.h"
#include "capture/model/timeline_builder_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

using capture::TimelineBuilder;
using testing::Each;
using testing::ElementsAre;

Steps StepsOf(const capture::Capture& capture) {
  std::vector<CallIndex> calls;
  for (const auto& rank : capture.ranks) calls.emplace_back(rank);
  return FindSteps(capture, capture::ClockModel(), calls);
}

TEST(Steps, WorkBelongsToTheStepOfItsLaunch) {
  TimelineBuilder t;
  t.Rank(0).Step(5, 0, 100).Step(6, 100, 100).Kernel("k", 150, 30, 7, 90).Kernel("k", 190, 30, 7, 120);
  const capture::Capture capture = t.Build();
  const Steps steps = StepsOf(capture);
  EXPECT_THAT(steps.names, ElementsAre(5, 6));
  EXPECT_THAT(steps.ranks[0].of_activity, ElementsAre(0, 1));
  EXPECT_EQ(steps.ranks[0].steps[0].device_end, TimelineBuilder::At(180));
}

// A host that runs ahead has launched the work of a step before the window begins.
TEST(Steps, WorkLaunchedBeforeTheWindowBelongsToTheStepBefore) {
  TimelineBuilder t;
  t.Rank(0).Step(5, 0, 100).Step(6, 100, 100).Api("cudaEventQuery", -20, 5);
  t.Rank(0).Kernel("k", 10, 40, 7).Kernel("k", 60, 40, 7);  // launched before
  t.Rank(0).Kernel("k", 105, 40, 7, 20).Kernel("k", 205, 40, 7, 120);
  t.Rank(0).Kernel("unlaunched stream", 130, 10, 9);
  const capture::Capture capture = t.Build();
  EXPECT_THAT(StepsOf(capture).ranks[0].of_activity, ElementsAre(kBeforeSteps, kBeforeSteps, 0, 1, 1));
}

// A lost record of a launch does not move its work to the step in which the device ran it.
TEST(Steps, WorkWithALostLaunchIsNotLaterThanTheNextOnItsStream) {
  TimelineBuilder t;
  t.Rank(0).Step(5, 0, 100).Step(6, 100, 100).Kernel("k", 50, 40, 7, 5);
  t.Rank(0).Kernel("lost", 110, 40, 7).Kernel("k", 160, 40, 7, 30).Kernel("k", 205, 40, 7, 120);
  const capture::Capture capture = t.Build();
  EXPECT_THAT(StepsOf(capture).ranks[0].of_activity, ElementsAre(0, 0, 0, 1));
}

TEST(Steps, WorkWithoutALaunchBelongsToTheStepWithMostOfIt) {
  TimelineBuilder t;
  t.Rank(0)
      .Step(5, 0, 100)
      .Step(6, 100, 100)
      .Kernel("k", 10, 60, 7)
      .Kernel("prefetch", 95, 60, 8)
      .Kernel("tail", 80, 25, 7)
      .Kernel("k", 130, 60, 7);
  const capture::Capture capture = t.Build();
  const Steps steps = StepsOf(capture);
  EXPECT_THAT(steps.ranks[0].of_activity, ElementsAre(0, 0, 1, 1));
}

TEST(Steps, AnEarlyReceiveWithoutALaunchBelongsToTheStepOfItsEnd) {
  TimelineBuilder t;
  const uint32_t g = t.Group("g", {0, 1});
  t.Rank(0).Step(5, 0, 1000).Step(6, 1000, 1000).Kernel("k", 10, 900, 7);
  t.Rank(0)
      .Communication({.op = capture::CollectiveOp::kReceive, .group = g, .peer = 1}, 400, 900)
      .Kernel("k", 1400, 500, 7);
  t.Rank(0).AllReduce(g, 1700, 300);
  const capture::Capture capture = t.Build();
  const Steps steps = StepsOf(capture);
  EXPECT_THAT(steps.ranks[0].of_activity, ElementsAre(0, 1, 1, 1));
}

TEST(Steps, TheWindowIsOneStepWithoutRanges) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 10).Kernel("k", 20, 10);
  const Steps steps = StepsOf(t.Build());
  EXPECT_FALSE(steps.found());
  EXPECT_EQ(steps.count(), 1u);
  EXPECT_THAT(steps.ranks[0].of_activity, Each(0));
}

TEST(Steps, LeavesOutStepsThatARankRecordedPartly) {
  TimelineBuilder t;
  for (int r = 0; r < 2; ++r) {
    for (int k = 0; k < 6; ++k)
      t.Rank(r).Step(10 + k, 100.0 * k, 100).Kernel("k", 100.0 * k + 10, 50, 7, 100.0 * k + 5);
  }
  t.Rank(1).data().ranges.front().start_unknown = true;
  t.Rank(0).data().ranges.back().end_unknown = true;
  const Steps steps = StepsOf(t.Build());
  EXPECT_THAT(steps.names, ElementsAre(11, 12, 13, 14));
  EXPECT_EQ(steps.partial, 2u);
  EXPECT_THAT(steps.ranks[0].of_activity, ElementsAre(kBeforeSteps, 0, 1, 2, 3, kAfterSteps));
}

TEST(Steps, UsesOnlyTheRequestedSteps) {
  TimelineBuilder t;
  for (int rank : {0, 1}) {
    for (int step = 4; step <= 9; ++step)
      t.Rank(rank).Step(step, step * 100, 100).Kernel("k", step * 100 + 10, 50, 7, step * 100 + 1);
  }
  capture::Capture capture = t.Build();
  capture.wanted_steps = capture::StepSpan{5, 3};
  const Steps steps = StepsOf(capture);
  EXPECT_THAT(steps.names, ElementsAre(5, 6, 7));
  EXPECT_THAT(steps.ranks[0].of_activity, ElementsAre(kBeforeSteps, 0, 1, 2, kAfterSteps, kAfterSteps));
  EXPECT_EQ(steps.partial, 0u) << "partial steps at the edges were not requested";
}

TEST(Steps, AStubAtTheEndIsNotAStep) {
  TimelineBuilder t;
  t.Rank(0).Api("cudaMalloc", -50, 1);
  for (int k = 0; k < 5; ++k) {
    t.Rank(0).Step(k, 100.0 * k, 100);
    for (int i = 0; i < (k == 4 ? 1 : 10); ++i)
      t.Rank(0).Kernel("k", 100.0 * k + 10 + i, 1, 7, 100.0 * k + 5 + i);
  }
  EXPECT_THAT(StepsOf(t.Build()).names, ElementsAre(0, 1, 2, 3));
}

// The host has launched the work of ten steps when the window ends. Its device has run that of six and a
// part.
TEST(Steps, LeavesOutStepsThatTheDeviceHasNotRunYet) {
  for (const bool with_calls : {true, false}) {
    TimelineBuilder t;
    t.Rank(0).Api("cudaMalloc", -50, 1);
    for (int k = 0; k < 10; ++k) {
      t.Rank(0).Step(k, 20.0 * k, 20);
      for (int i = 0; i < 100; ++i) {
        const double launch = 20.0 * k + 0.1 * i;
        if (k < 6 || (k == 6 && i < 90))
          t.Rank(0).Kernel("k", 20 + 30.0 * k + 0.3 * i, 0.3, 7, launch);
        else if (with_calls)
          t.Rank(0).Api("cudaLaunchKernel", launch, 0.05);
      }
      t.Rank(0).Api("cudaEventQuery", 20.0 * k + 15, 1);
    }
    const Steps steps = StepsOf(t.Build());
    if (with_calls) {
      EXPECT_THAT(steps.names, ElementsAre(0, 1, 2, 3, 4, 5));
      EXPECT_THAT(steps.unfinished, ElementsAre(6, 7, 8, 9));
    } else {
      EXPECT_THAT(steps.names, ElementsAre(0, 1, 2, 3, 4, 5, 6)) << "nine tenths of a step are no fragment";
      EXPECT_THAT(steps.unfinished, ElementsAre(7, 8, 9));
    }
  }
}

// Two percent of the records are lost everywhere, so the last step is as whole as the others.
TEST(Steps, RandomLossesDoNotShortenTheWindow) {
  TimelineBuilder t;
  t.Rank(0).Api("cudaMalloc", -50, 1);
  for (int k = 0; k < 8; ++k) {
    t.Rank(0).Step(k, 200.0 * k, 200);
    for (int i = 0; i < 100; ++i) {
      if ((7 * k + i) % 50 != 0)
        t.Rank(0).Kernel("k", 200.0 * k + 10 + i, 1, 7, 200.0 * k + 5 + i);
      else
        t.Rank(0).Api("cudaLaunchKernel", 200.0 * k + 5 + i, 0.5);
    }
  }
  const Steps steps = StepsOf(t.Build());
  EXPECT_EQ(steps.count(), 8u);
  EXPECT_TRUE(steps.unfinished.empty());
}

TEST(Steps, LeavesOutABeginWithoutAPredecessorIfOtherStepsRemain) {
  for (const int count : {3, 6}) {
    TimelineBuilder t;
    for (int k = 0; k < count; ++k)
      t.Rank(0).Step(k, 100.0 * k, 100).Kernel("k", 100.0 * k + 10, 50, 7, 100.0 * k + 5);
    const Steps steps = StepsOf(t.Build());
    EXPECT_EQ(steps.count(), static_cast<size_t>(count == 3 ? 3 : 5));
    EXPECT_EQ(steps.begin_unknown, count == 3 ? std::nullopt : std::optional<int64_t>(0));
  }
}

TEST(Steps, DistinguishesRepeatedNumbersByTime) {
  TimelineBuilder t;
  for (int turn = 0; turn < 4; ++turn) {
    t.Rank(0).Step(10, 1000.0 * turn, 900).Kernel("k", 1000.0 * turn + 10, 50, 7, 1000.0 * turn + 5);
    if (turn > 0)
      t.Rank(1).Step(10, 1000.0 * turn + 80, 820).Kernel("k", 1000.0 * turn + 90, 50, 7, 1000.0 * turn + 85);
  }
  const Steps steps = StepsOf(t.Build());
  ASSERT_EQ(steps.count(), 3u);
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(steps.ranks[1].steps[k].host.start - steps.ranks[0].steps[k].host.start, Nanos::Micros(80));
  }
}

// Profilers round stamps, so a step may begin a little before the previous one has ended.
TEST(Steps, RangesThatOverlapByRoundingAreSeparateSteps) {
  TimelineBuilder t;
  for (int r = 0; r < 2; ++r) {
    auto& rank = t.Rank(r);
    rank.Kernel("before", -500, 10, 7);
    for (int s = 0; s < 8; ++s)
      rank.Step(s, 30'000.0 * s, 30'000 + (s % 2 == r ? 2.5 : -0.5))
          .Kernel("k", 30'000.0 * s + 100, 29'000, 7);
  }
  const Steps steps = StepsOf(t.Build());
  EXPECT_THAT(steps.names, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(Steps, AMarkInsideAStepIsNotAStep) {
  TimelineBuilder t;
  t.Rank(0).Kernel("before", -500, 10, 7);
  for (int s = 0; s < 4; ++s) {
    const double at = 30'000.0 * s;
    t.Rank(0).Step(s, at, 30'000).Step(s, at + 5, 29'000).Kernel("k", at + 100, 29'000, 7);
  }
  EXPECT_THAT(StepsOf(t.Build()).names, ElementsAre(0, 1, 2, 3));
}

TEST(Steps, AMissingStepKeepsTheLongerRun) {
  TimelineBuilder t;
  for (int k : {1, 2, 4, 5, 6, 7}) {
    for (int r = 0; r < 2; ++r)
      t.Rank(r).Step(k, 100.0 * k, 100).Kernel("k", 100.0 * k + 10, 50, 7, 100.0 * k + 5);
  }
  t.Rank(0).Step(3, 300, 100);  // only one rank recorded step 3
  EXPECT_THAT(StepsOf(t.Build()).names, ElementsAre(4, 5, 6, 7));
}

// A rank that repeats a program of eight kernels every `period_us`. Two of them come once per period, each
// after a pause.
void Repeat(TimelineBuilder& t, int rank, int times, double period_us, double begin_us = 0) {
  for (int k = 0; k < times; ++k) {
    const double at = begin_us + period_us * k;
    for (int i = 0; i < 6; ++i)
      t.Rank(rank).Kernel(i % 2 == 0 ? "gemm" : "norm", at + 10 + 8 * i, 6, 7, at + 5 + 8 * i);
    t.Rank(rank).Kernel("loss", at + 60, 6, 7, at + 55).Kernel("adam", at + 70, 6, 7, at + 65);
  }
}

TEST(Steps, ARangeOfAnyNameOncePerStepOnEveryRankMarksSteps) {
  TimelineBuilder t;
  for (int r = 0; r < 2; ++r) {
    Repeat(t, r, 5, 100);
    for (int k = 0; k < 5; ++k) {
      t.Rank(r).Range("train " + std::to_string(7 + k) + " of 500", 100.0 * k, 95);
      t.Rank(r).Range("forward", 100.0 * k + 1, 40);
    }
  }
  const Steps steps = StepsOf(t.Build());
  EXPECT_EQ(steps.source, StepSource::kNamedRanges);
  EXPECT_THAT(steps.how, testing::HasSubstr("\"train # of #\""));
  EXPECT_EQ(steps.count(), 4u) << "nothing leads into the first";
}

TEST(Steps, APartialRangeOrOneMissingOnARankDoesNotMarkSteps) {
  TimelineBuilder t;
  for (int r = 0; r < 2; ++r) {
    for (int k = 0; k < 2; ++k) t.Rank(r).Kernel("k", 100.0 * k + 10, 30, 7, 100.0 * k + 5);
    for (int k = 0; k < 6; ++k) t.Rank(r).Range("forward", 30.0 * k, 4);
  }
  for (int k = 0; k < 6; ++k) t.Rank(0).Range("log", 100.0 * k, 100);
  EXPECT_FALSE(StepsOf(t.Build()).found());
}

TEST(Steps, InfersUnmarkedStepsFromThePeriod) {
  TimelineBuilder t;
  for (int r = 0; r < 2; ++r) Repeat(t, r, 8, 200, 30.0 * r);
  const capture::Capture capture = t.Build();
  const Steps steps = StepsOf(capture);
  EXPECT_EQ(steps.source, StepSource::kPeriod);
  EXPECT_THAT(steps.how, testing::HasSubstr("0.2 ms"));
  EXPECT_THAT(steps.how, testing::HasSubstr("each begins at gemm"))
      << "after the pause, not in the midst of the work: " << steps.how;
  ASSERT_GE(steps.count(), 5u);
  for (size_t r = 0; r < 2; ++r) {
    for (const RankStep& s : steps.ranks[r].steps) EXPECT_EQ(s.activities, 8u);
  }
}

TEST(Steps, APeriodWithinTheStepIsNotTheStep) {
  // Each step has four microbatches, then work that comes once per step.
  TimelineBuilder t;
  for (int r = 0; r < 2; ++r) {
    double now = 0;
    for (int k = 0; k < 6; ++k) {
      for (int m = 0; m < 4; ++m) {
        for (const char* name : {"embed", "attention", "gelu", "loss"}) {
          t.Rank(r).Kernel(name, now + 2, 8, 7, now);
          now += 10;
        }
      }
      for (const char* name : {"norm", "adam"}) {
        t.Rank(r).Kernel(name, now + 2, 8, 7, now);
        now += 10;
      }
      now += 30;
    }
  }
  const Steps steps = StepsOf(t.Build());
  EXPECT_EQ(steps.source, StepSource::kPeriod);
  for (const RankStep& s : steps.ranks[0].steps) EXPECT_EQ(s.activities, 18u);
}

// As in a capture of the past: equal collectives, at irregular times within a step.
TEST(Steps, InfersStepsFromCollectivesAlone) {
  TimelineBuilder t;
  const uint32_t g = t.Group("g", {0, 1});
  for (int step = 0; step < 10; ++step) {
    for (int32_t rank : {0, 1}) {
      for (const int at : {600, 650, 720, 830})
        t.Rank(rank).AllReduce(g, 1000.0 * step + at + 3 * rank, 20.0 - 3 * rank);
    }
  }
  const capture::Capture capture = t.Build();
  const Steps steps = StepsOf(capture);
  EXPECT_EQ(steps.source, StepSource::kPeriod);
  ASSERT_GE(steps.count(), 8u);
  for (const RankSteps& rank : steps.ranks) {
    for (const RankStep& step : rank.steps) EXPECT_EQ(step.activities, 4u);
  }
}

// Returns the group and the number of the first collective in a step.
std::pair<uint32_t, int64_t> FirstCollective(const capture::Capture& capture, const Steps& steps, size_t rank,
                                             size_t step) {
  const capture::RankData& data = capture.ranks[rank];
  for (size_t a = 0; a < data.activities.size(); ++a) {
    if (steps.ranks[rank].of_activity[a] != static_cast<int32_t>(step)) continue;
    const capture::Collective& first = data.collectives[data.activities[a].collective];
    return {first.group, first.sequence};
  }
  return {};
}

// A rank that comes late by a third of the step has its longest gap elsewhere than the others.
TEST(Steps, StepsOfALateRankBeginWithTheSameCollective) {
  for (double late = 50; late < 600; late += 25) {
    SCOPED_TRACE(late);
    TimelineBuilder t;
    const uint32_t groups[] = {t.Group("world", {0, 1, 2, 3}), t.Group("other", {0, 1, 2, 3})};
    std::mt19937 random(5);
    double now = 0;
    for (int64_t step = 0; step < 12; ++step) {
      // The first collective of a step comes after a pause, and ends when the late rank has come.
      for (const uint32_t group : groups) {
        const double pause = group == groups[0] ? 400 : 10;
        const double end = now + pause + (group == groups[0] ? late : 0) + 20;
        for (int32_t rank = 0; rank < 4; ++rank) {
          const double noise = static_cast<double>(random() % 100) * 0.05;
          const double begin = now + pause + noise + (rank == 3 && group == groups[0] ? late : 0);
          t.Rank(rank).Communication({.group = group,
                                      .source = capture::MatchSource::kNcclSequence,
                                      .sequence = step,
                                      .bytes = 4096},
                                     begin, end - begin + noise);
        }
        now = end;
      }
    }
    const capture::Capture capture = t.Build();
    const Steps steps = StepsOf(capture);
    EXPECT_EQ(steps.source, StepSource::kPeriod);
    ASSERT_GE(steps.count(), 8u);
    for (size_t i = 0; i < steps.count(); ++i) {
      const std::pair<uint32_t, int64_t> first = FirstCollective(capture, steps, 0, i);
      for (size_t rank = 1; rank < 4; ++rank) EXPECT_EQ(FirstCollective(capture, steps, rank, i), first) << i;
    }
  }
}

TEST(Steps, TheWindowIsOneStepWithoutAPeriod) {
  TimelineBuilder t;
  std::mt19937 random(3);
  double now = 0;
  for (int i = 0; i < 80; ++i) {
    now += 10 + static_cast<double>(random() % 90);
    t.Rank(0).Kernel("kernel " + std::to_string(random() % 12), now, 5, 7, now - 2);
  }
  EXPECT_EQ(StepsOf(t.Build()).count(), 1u);
}

TEST(StepBreakdown, KindsAreDisjointAndSumToTheStep) {
  TimelineBuilder t;
  const uint32_t pair = t.Group("pair", {0});
  t.Rank(0)
      .Step(0, 0, 100)
      .Range("DataLoader.__next__", 0, 20)
      .Kernel("k", 30, 20, 7, 25)
      .Copy(8, 40, 20)
      .AllReduce(pair, 55, 25);
  const capture::Capture capture = t.Build();
  const StepBreakdown b = BreakDownSteps(capture, capture.ranks[0], StepsOf(capture).ranks[0]);
  EXPECT_EQ(b.kernel, Nanos::Micros(20));
  EXPECT_EQ(b.memcpy, Nanos::Micros(10));
  EXPECT_EQ(b.communication, Nanos::Micros(20));
  EXPECT_EQ(b.dataloader, Nanos::Micros(20));
  EXPECT_EQ(b.runtime, Nanos::Micros(2));
  EXPECT_EQ(
      b.kernel + b.memcpy + b.memset + b.communication + b.runtime + b.dataloader + b.cpu_exec + b.other,
      Nanos::Micros(100));
}

TEST(StepTable, SelfTimeIsTheStepWithoutWaiting) {
  TimelineBuilder t;
  const uint32_t pair = t.Group("pair", {0, 1});
  t.Rank(0).Step(0, 0, 100).Kernel("k", 10, 20, 7, 5).AllReduce(pair, 30, 60);
  t.Rank(1).Step(0, 0, 100).Kernel("k", 10, 65, 7, 5).AllReduce(pair, 75, 15);
  const capture::Capture capture = t.Build();
  const capture::Matches matches = capture::Match(capture);
  const CollectiveTimes times = TimeCollectives(capture, matches, capture::EstimateClocks(capture, matches));
  const auto rows = TimeSteps(capture.ranks[0], StepsOf(capture).ranks[0], times.parts[0]);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].duration, Nanos::Micros(100));
  EXPECT_EQ(rows[0].wait, Nanos::Micros(45));
  EXPECT_EQ(rows[0].self, Nanos::Micros(55));
}

}  // namespace
}  // namespace lockstep::analysis
