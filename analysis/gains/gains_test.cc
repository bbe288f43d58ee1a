// Gains, bounds, the split and sets of fixes, compared with brute force on simulated jobs of 8 ranks.
#include "analysis/gains/gains.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "analysis/explain/diagnosis.h"
#include "analysis/prepare/stages.h"
#include "analysis/replay/prepared.h"
#include "gtest/gtest.h"
#include "scenario/generator.h"
#include "sim/engine/dry_run.h"
#include "tests/support/sim_capture.h"
#include "tests/support/step_capture.h"

namespace lockstep::analysis {
namespace {

using sim::FaultKind;

constexpr uint32_t kSteps = 12;

double Mean(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

struct Job {
  scenario::Scenario scenario;
  sim::ModelSettings settings;
  capture::Capture Capture() const {
    tests::SimCaptureOptions options;
    options.from = VirtualTime(300'000'000);
    options.to = options.from + Nanos::Seconds(1);
    return tests::CaptureOf(scenario, sim::DryRun(scenario, settings, kSteps), options);
  }
};

Job Healthy(const scenario::TransformerShape& shape = {}) {
  Job job{*scenario::MakeTransformer(shape), {}};
  job.settings.seed = 11;
  return job;
}

Job With(FaultKind kind, uint32_t rank, double size, const scenario::TransformerShape& shape = {}) {
  Job job = Healthy(shape);
  const auto healthy = sim::DryRun(job.scenario, job.settings, kSteps);
  EXPECT_TRUE(sim::SizeFault(job.scenario, kind, rank, size, sim::MeanStep(job.scenario, healthy),
                             &job.settings.fault));
  return job;
}

// Makes the kernels of these ranks take `factor` times as long.
void SlowDown(scenario::Scenario& scenario, const std::vector<uint32_t>& ranks, double factor) {
  for (uint32_t r : ranks) {
    for (scenario::Op& op : scenario.ranks[r].program) {
      if (op.kind == scenario::OpKind::kKernel)
        op.service_time = Nanos(static_cast<int64_t>(static_cast<double>(op.service_time.ns()) * factor));
    }
  }
}

TEST(Gains, ARanksExcessOnTheCriticalPathBoundsItsGain) {
  for (const FaultKind kind :
       {FaultKind::kNone, FaultKind::kSlowGpu, FaultKind::kHostStall, FaultKind::kCopy}) {
    const Job job = kind == FaultKind::kNone ? Healthy() : With(kind, 3, 0.1);
    const capture::Capture capture = job.Capture();
    const Prepared prepared(capture);
    const GraphInput input = prepared.input();
    Gains gains(input);
    gains.Measure();
    ASSERT_EQ(gains.rank_gains().size(), 8u);
    for (uint32_t r = 0; r < 8; ++r) {
      ASSERT_FALSE(gains.rank_gains()[r].empty());
      EXPECT_LE(Mean(gains.rank_gains()[r]), gains.rank_gain_bounds()[r] + 1e-3) << "rank " << r;
    }
  }
}

// A rank that is not replayed in a large job could not be reported. The test replays them all.
TEST(Gains, SkippedRanksOfALargeJobHaveNegligibleGains) {
  tests::StepCaptureShape shape;
  shape.data_parallel = 8, shape.tensor_parallel = 4, shape.pipeline_parallel = 4, shape.steps = 5;
  shape.slow_ranks = {70};
  shape.slow_factor = 1.1;
  const capture::Capture capture = tests::StepCapture(shape);
  const Prepared prepared(capture);
  const GraphInput input = prepared.input();
  Gains gains(input);
  gains.Measure();
  uint32_t left_out = 0;
  ASSERT_FALSE(gains.rank_gains()[70].empty());
  EXPECT_GT(Mean(gains.rank_gains()[70]), kLeastShare * gains.step_ns());
  for (uint32_t r = 0; r < shape.ranks(); ++r) {
    if (!gains.rank_gains()[r].empty()) continue;
    ++left_out;
    const double gain = Mean(gains.Of({.rank_indices = {r}, .owners = {}}));
    EXPECT_LE(gain, gains.rank_gain_bounds()[r] + 1e-3) << "rank " << r;
    EXPECT_LT(gain, kLeastShare * gains.step_ns()) << "rank " << r;
  }
  EXPECT_GT(left_out, 90u);
}

TEST(Gains, TheSplitSumsToTheLostTimePerRankStepAndKind) {
  for (const FaultKind kind : {FaultKind::kNone, FaultKind::kSlowGpu, FaultKind::kSlowLink}) {
    const Job job = kind == FaultKind::kNone ? Healthy() : With(kind, 6, 0.15);
    const capture::Capture capture = job.Capture();
    const Prepared prepared(capture);
    const GraphInput input = prepared.input();
    Gains gains(input);
    gains.Measure();
    const double steps = static_cast<double>(gains.steps());
    const double units = std::accumulate(gains.split().cost.begin(), gains.split().cost.end(), 0.0);
    EXPECT_NEAR(units, gains.lost_ns() * steps, 1e-6 * std::fabs(units));
    double ranks = 0, by_step = 0, transfers = 0;
    for (const RankCost& c : gains.rank_costs()) ranks += c.total();
    for (double c : gains.owner_costs()) transfers += c;
    for (const auto& costs : gains.rank_step_costs())
      by_step += std::accumulate(costs.begin(), costs.end(), 0.0);
    EXPECT_NEAR(ranks + transfers, gains.lost_ns(), 1e-6 * std::fabs(gains.lost_ns()));
    EXPECT_NEAR(by_step, ranks * steps, 1e-6 * std::fabs(by_step));
  }
}

// The path can be followed point by point on the straight line from typical to observed values.
TEST(Gains, TheSplitIsTheMeanOverPathsFromTypicalToObserved) {
  const Job job = With(FaultKind::kSlowGpu, 2, 0.1);
  const capture::Capture capture = job.Capture();
  const Prepared prepared(capture);
  const GraphInput input = prepared.input();
  Gains gains(input);
  gains.Measure();
  const Graph& graph = gains.graph();
  const Schedule schedule(graph, gains.steps(), FirstEnd(graph, input));
  Replay replay(schedule);
  constexpr int kPoints = 400;
  std::vector<double> cost(8, 0);
  for (int i = 0; i < kPoints; ++i) {
    const double at = (i + 0.5) / kPoints;
    Timing timing = gains.typical().Ideal();
    for (size_t u = 0; u < graph.units.size(); ++u) {
      timing.lag[u] += at * (graph.lag[u] - timing.lag[u]);
      timing.work[u] += at * (graph.work[u] - timing.work[u]);
    }
    replay.Run(timing);
    for (const PathNode& node : replay.CriticalPath()) {
      const uint32_t u = UnitOf(node.node);
      if (graph.units[u].kind == UnitKind::kTransfer) continue;
      const double difference =
          node.node % 2 == 0 ? graph.lag[u] - gains.ideal().lag[u] : graph.work[u] - gains.ideal().work[u];
      cost[graph.units[u].rank_index] +=
          node.weight * difference / kPoints / static_cast<double>(gains.steps());
    }
  }
  for (uint32_t r = 0; r < 8; ++r)
    EXPECT_NEAR(gains.rank_costs()[r].total(), cost[r], 0.01 * gains.lost_ns()) << "rank " << r;
}

// Changes few units, many units and none, in turns. Following the changes gives the same result to the bit as
// computing everything.
TEST(Replay, RerunGivesTheSameMomentsAsAWholeRun) {
  scenario::TransformerShape shape;
  shape.data_parallel = 2, shape.tensor_parallel = 2, shape.pipeline_parallel = 2;
  const capture::Capture capture = Healthy(shape).Capture();
  const Prepared prepared(capture);
  const GraphInput input = prepared.input();
  Gains gains(input);
  const Graph& graph = gains.graph();
  const Schedule schedule(graph, gains.steps(), FirstEnd(graph, input));
  Replay whole(schedule), following(schedule);
  Timing timing = ObservedTiming(graph);
  following.Rerun(timing, {});
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<uint32_t> changed;
    const size_t count = round % 3 == 0 ? 1 : round % 3 == 1 ? 40 : graph.units.size() / 3;
    for (size_t i = 0; i < count; ++i) {
      const auto u = static_cast<uint32_t>(random() % graph.units.size());
      const double factor = 0.5 + static_cast<double>(random() % 1000) / 1000;
      if (random() % 4 != 0) timing.work[u] = round % 2 == 0 ? graph.work[u] : graph.work[u] * factor;
      if (random() % 4 == 0) timing.lag[u] = graph.lag[u] * factor;
      changed.push_back(u);
    }
    following.Rerun(timing, changed);
    whole.Run(timing);
    for (NodeRef n = 0; n < 2 * graph.units.size(); ++n)
      ASSERT_EQ(following.At(n), whole.At(n)) << "round " << round << ", moment " << n;
    ASSERT_EQ(following.StepDurations(), whole.StepDurations()) << "round " << round;
  }
}

TEST(Gains, IdenticalRanksShareTheCostEqually) {
  scenario::TransformerShape shape;
  shape.noise_ppm = 0;
  shape.data_parallel = 5, shape.tensor_parallel = 1, shape.pipeline_parallel = 1;
  Job job = Healthy(shape);
  SlowDown(job.scenario, {1, 2}, 1.2);
  const capture::Capture capture = job.Capture();
  const Prepared prepared(capture);
  const GraphInput input = prepared.input();
  Gains gains(input);
  gains.Measure();
  EXPECT_GT(gains.rank_costs()[1].total(), 0.05 * gains.step_ns());
  EXPECT_NEAR(gains.rank_costs()[1].total(), gains.rank_costs()[2].total(), 1e-6 * gains.step_ns());
  EXPECT_NEAR(gains.rank_costs()[1].total() + gains.rank_costs()[2].total(), gains.lost_ns(),
              0.01 * gains.lost_ns());
}

TEST(Gains, PathWeightsSumToOneAtEveryCut) {
  scenario::TransformerShape shape;
  shape.noise_ppm = 0;
  const capture::Capture capture = Healthy(shape).Capture();
  const Prepared prepared(capture);
  const GraphInput input = prepared.input();
  Gains gains(input);
  const Graph& graph = gains.graph();
  const Schedule schedule(graph, gains.steps(), FirstEnd(graph, input));
  Replay replay(schedule);
  replay.Run(Durations(graph));
  // Ranks in lockstep tie all the time. The sum over the path is still the length of the run.
  double length = 0;
  bool forked = false;
  for (const PathNode& node : replay.CriticalPath()) {
    const uint32_t u = UnitOf(node.node);
    length += node.weight * (node.node % 2 == 0 ? graph.lag[u] : graph.work[u]);
    forked |= node.weight < 1;
  }
  EXPECT_TRUE(forked);
  // The path begins about where the step before the first used one ends.
  EXPECT_NEAR(length, replay.TotalTime(), 0.1 * gains.step_ns());
}

TEST(Diagnosis, TwoEqualStragglersAreBothNamedWithTheirJointGain) {
  for (const double factor : {1.1, 1.25}) {
    scenario::TransformerShape shape;
    shape.data_parallel = 4, shape.tensor_parallel = 1, shape.pipeline_parallel = 2;
    const Job healthy = Healthy(shape);
    Job job = healthy;
    SlowDown(job.scenario, {1, 2}, factor);
    const capture::Capture capture = job.Capture();
    const Prepared prepared(capture);
    const Diagnosis d = Diagnose(prepared.input());
    ASSERT_EQ(d.findings.size(), 2u) << factor;
    std::vector<uint32_t> named = {d.findings[0].rank_indices[0], d.findings[1].rank_indices[0]};
    std::sort(named.begin(), named.end());
    EXPECT_EQ(named, (std::vector<uint32_t>{1, 2}));
    const auto truth = static_cast<double>(
        (sim::MeanStep(job.scenario, sim::DryRun(job.scenario, job.settings, kSteps)) -
         sim::MeanStep(healthy.scenario, sim::DryRun(healthy.scenario, healthy.settings, kSteps)))
            .ns());
    ASSERT_FALSE(d.fixes.empty());
    EXPECT_EQ(d.fixes[0].entries, (std::vector<uint32_t>{0, 1}));
    EXPECT_NEAR(Mean(d.fixes[0].gain_per_step), truth, 0.1 * truth);
    // Neither gains much alone. The verdict uses the cost of each one beside the other.
    for (const Finding& f : d.findings) {
      EXPECT_LT(f.gain_ns, 0.5 * truth);
      EXPECT_EQ(f.verdict, Verdict::kSure);
    }
    double sum = d.noise_ns + d.unlisted_ns + d.unexplained_ns;
    for (const Finding& f : d.findings) sum += f.lost_ns;
    EXPECT_NEAR(sum, d.lost_ns, 1e-6 * d.lost_ns);
  }
}

// The faster one of two slow ranks delays no rank while the slower one does.
TEST(Diagnosis, NamesAStragglerHiddenByAnother) {
  scenario::TransformerShape shape;
  shape.data_parallel = 4, shape.tensor_parallel = 1, shape.pipeline_parallel = 1;
  Job job = Healthy(shape);
  SlowDown(job.scenario, {0}, 1.3);
  SlowDown(job.scenario, {3}, 1.2);
  const capture::Capture capture = job.Capture();
  const Prepared prepared(capture);
  const Diagnosis d = Diagnose(prepared.input());
  ASSERT_EQ(d.findings.size(), 2u);
  EXPECT_EQ(d.findings[0].rank_indices[0], 0u);
  EXPECT_EQ(d.findings[1].rank_indices[0], 3u);
  EXPECT_TRUE(d.findings[1].hidden);
  EXPECT_GT(d.findings[1].lost_ns, *d.noise_floor_ns);
  EXPECT_LT(d.findings[1].gain_ns, *d.noise_floor_ns);
  ASSERT_GE(d.fixes.size(), 2u);
  EXPECT_EQ(d.fixes[0].entries, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(d.fixes[1].entries, (std::vector<uint32_t>{0}));
  EXPECT_GT(Mean(d.fixes[0].gain_per_step), 2 * Mean(d.fixes[1].gain_per_step));
  double sum = d.noise_ns + d.unlisted_ns + d.unexplained_ns;
  for (const Finding& f : d.findings) sum += f.lost_ns;
  EXPECT_NEAR(sum, d.lost_ns, 1e-6 * d.lost_ns);
}

TEST(Diagnosis, ResultIsIndependentOfTheNumberOfThreads) {
  const capture::Capture capture = With(FaultKind::kSlowGpu, 4, 0.1).Capture();
  std::vector<double> first;
  for (const unsigned threads : {1u, 2u, 5u}) {
    const Prepared prepared(capture, threads);
    const Diagnosis d = Diagnose(prepared.input());
    std::vector<double> values = {d.step_ns, d.ideal_step_ns, d.noise_ns, d.unlisted_ns,
                                  d.transfer_free_step_ns};
    values.insert(values.end(), d.rank_gains.begin(), d.rank_gains.end());
    values.insert(values.end(), d.rank_gain_bounds.begin(), d.rank_gain_bounds.end());
    for (const auto& by_step : d.rank_step_lost) values.insert(values.end(), by_step.begin(), by_step.end());
    for (const Finding& f : d.findings)
      values.insert(values.end(), f.gain_per_step.begin(), f.gain_per_step.end());
    if (first.empty()) first = values;
    EXPECT_EQ(values, first) << threads << " threads";
  }
}

TEST(Layout, FindsTheGeneratorsStagesAndGroups) {
  scenario::TransformerShape shape;
  shape.data_parallel = 2, shape.tensor_parallel = 2, shape.pipeline_parallel = 4;
  const capture::Capture capture = Healthy(shape).Capture();
  const Prepared prepared(capture);
  const Layout layout = InferLayout(capture, prepared.matches, prepared.times, prepared.steps);
  EXPECT_EQ(layout.stages, 4u);
  EXPECT_TRUE(layout.first_known);
  for (uint32_t r = 0; r < 16; ++r) {
    // Rank = (stage * data parallel + replica) * tensor parallel + shard.
    EXPECT_EQ(layout.stage_of[r], static_cast<int32_t>(r / 4)) << "rank " << r;
    ASSERT_NE(layout.tensor_group_of[r], capture::kNone);
    ASSERT_NE(layout.data_group_of[r], capture::kNone);
    const auto members = [&](uint32_t g) { return capture.groups[g].members; };
    const uint32_t in_stage = r % 4;
    EXPECT_EQ(members(layout.tensor_group_of[r]),
              (std::vector<RankId>{RankId(static_cast<int32_t>(r - in_stage % 2)),
                                   RankId(static_cast<int32_t>(r - in_stage % 2 + 1))}));
    EXPECT_EQ(members(layout.data_group_of[r]),
              (std::vector<RankId>{RankId(static_cast<int32_t>(r - in_stage + in_stage % 2)),
                                   RankId(static_cast<int32_t>(r - in_stage + in_stage % 2 + 2))}));
  }
  EXPECT_EQ(layout.RanksOf(3), (std::vector<uint32_t>{12, 13, 14, 15}));
}

// A stage runs its passes in its own order, so the n-th kernel of a name differs between stages.
TEST(Layout, DoesNotCompareKernelsOfDifferentStages) {
  scenario::TransformerShape shape;
  shape.data_parallel = 2, shape.tensor_parallel = 2, shape.pipeline_parallel = 4;
  Job job = Healthy(shape);
  // Kernels of one name get two sizes, in the order of the passes.
  for (scenario::Rank& rank : job.scenario.ranks) {
    for (scenario::Op& op : rank.program) {
      if (op.kind != scenario::OpKind::kKernel ||
          job.scenario.names[op.name].find("flash_bwd") == std::string::npos)
        continue;
      for (const scenario::Op& other : rank.program) {
        if (other.kind == scenario::OpKind::kKernel &&
            job.scenario.names[other.name].find("flash_fwd") != std::string::npos) {
          op.name = other.name;
          op.geometry = other.geometry;
          break;
        }
      }
    }
  }
  const capture::Capture capture = job.Capture();
  const Prepared prepared(capture);
  const Diagnosis d = Diagnose(prepared.input());
  EXPECT_TRUE(d.findings.empty());
  for (double gain : d.rank_gains) EXPECT_NEAR(gain, 0, 0.01 * d.step_ns);
  EXPECT_NEAR(d.ideal_step_ns, d.step_ns, 0.02 * d.step_ns);
}

TEST(Layout, HasNoStagesWithoutMessages) {
  scenario::TransformerShape shape;
  shape.data_parallel = 4, shape.tensor_parallel = 2, shape.pipeline_parallel = 1;
  const capture::Capture capture = Healthy(shape).Capture();
  const Prepared prepared(capture);
  const Layout layout = InferLayout(capture, prepared.matches, prepared.times, prepared.steps);
  EXPECT_EQ(layout.stages, 0u);
  for (int32_t stage : layout.stage_of) EXPECT_EQ(stage, -1);
  EXPECT_EQ(capture.groups[layout.tensor_group_of[5]].members, (std::vector<RankId>{RankId(4), RankId(5)}));
}

}  // namespace
}  // namespace lockstep::analysis
