// Verdicts compared with the truth of simulated jobs, with the same seed with and without the fault.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <random>

#include "analysis/explain/diagnosis.h"
#include "analysis/replay/prepared.h"
#include "gtest/gtest.h"
#include "scenario/generator.h"
#include "sim/engine/dry_run.h"
#include "tests/support/sim_capture.h"

namespace lockstep::analysis {
namespace {

using sim::FaultKind;

// A window like that of `lockstep trace --duration 2s` in the middle of a job.
constexpr Nanos kWindow = Nanos::Seconds(2);
constexpr uint32_t kSteps = 28;

Diagnosis DiagnoseCapture(const capture::Capture& capture) {
  const Prepared prepared(capture);
  return Diagnose(prepared.input());
}

Steps StepsOf(const capture::Capture& capture) {
  std::vector<CallIndex> calls;
  for (const auto& rank : capture.ranks) calls.emplace_back(rank);
  return FindSteps(capture, capture::EstimateClocks(capture, capture::Match(capture)), calls);
}

struct Job {
  scenario::Scenario scenario;
  sim::ModelSettings settings;
  tests::SimCaptureOptions options;
  Nanos true_cost;  // per step
};

// Draws a job: seed, window, and a fault of 5 to 30 % of a step on any rank.
Job DrawJob(const scenario::Scenario& scenario, FaultKind kind, std::mt19937_64& random) {
  Job job{scenario, {}, {}, {}};
  job.settings.seed = random();
  const auto healthy = sim::DryRun(scenario, job.settings, kSteps);
  job.options.from = VirtualTime(400'000'000 + static_cast<int64_t>(random() % 150'000'000));
  job.options.to = job.options.from + kWindow;
  if (kind == FaultKind::kNone) return job;
  const auto rank = static_cast<uint32_t>(random() % scenario.ranks.size());
  const double size = 0.05 + 0.25 * static_cast<double>(random() % 1000) / 1000.0;
  EXPECT_TRUE(
      sim::SizeFault(scenario, kind, rank, size, sim::MeanStep(scenario, healthy), &job.settings.fault));
  const auto faulty = sim::DryRun(scenario, job.settings, kSteps);
  job.true_cost = tests::TrueStep(faulty, job.options.from, job.options.to) -
                  tests::TrueStep(healthy, job.options.from, job.options.to);
  return job;
}

capture::Capture CaptureJob(const Job& job) {
  return tests::CaptureOf(job.scenario, sim::DryRun(job.scenario, job.settings, kSteps), job.options);
}

Cause ExpectedCause(FaultKind kind) {
  switch (kind) {
    case FaultKind::kSlowGpu:
      return Cause::kGpuClock;
    case FaultKind::kHostStall:
      return Cause::kHostPause;
    case FaultKind::kSlowLink:
      return Cause::kSlowLink;
    case FaultKind::kCopy:
      return Cause::kCopy;
    case FaultKind::kNone:
      break;
  }
  return Cause::kUnknown;
}

// Checks one faulty job; returns the relative error of the culprit's milliseconds.
double CheckFault(const Job& job, const capture::Capture& capture) {
  const FaultKind kind = job.settings.fault.kind;
  const Diagnosis d = DiagnoseCapture(capture);
  const std::string what =
      std::string(sim::FaultName(kind)) + " of " + std::to_string(job.settings.fault.size) + " on rank " +
      std::to_string(job.settings.fault.rank) + ", seed " + std::to_string(job.settings.seed);
  if (d.findings.empty()) {
    ADD_FAILURE() << "nothing found: " << what;
    return 1;
  }
  const Finding& first = d.findings[0];
  EXPECT_EQ(first.rank_indices, std::vector<uint32_t>{job.settings.fault.rank}) << what;
  EXPECT_EQ(CauseName(first.cause), CauseName(ExpectedCause(kind))) << what;
  EXPECT_EQ(first.verdict, Verdict::kSure) << what;
  const auto truth = static_cast<double>(job.true_cost.ns());
  const double error = std::fabs(first.gain_ns - truth) / truth;
  EXPECT_LT(error, 0.15) << what;
  double sum = d.noise_ns + d.unlisted_ns + d.unexplained_ns;
  for (const Finding& f : d.findings) sum += f.lost_ns;
  EXPECT_NEAR(sum, d.lost_ns, 1e-6 * std::fabs(d.lost_ns)) << what;
  return error;
}

// A sanitizer looks for errors in the code, not in the verdicts, and makes the test 25 times as slow. Two
// faults of every kind are enough for it.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kFaults = 8, kHealthy = 2, kPairs = 3;
#else
constexpr int kFaults = 40, kHealthy = 12, kPairs = 20;
#endif

TEST(Evaluation, NamesEveryFaultFirstWithItsCauseAndCost) {
  std::mt19937_64 random(20'251'121);
  const scenario::Scenario scenario = *scenario::MakeTransformer({});
  std::vector<double> errors;
  for (int i = 0; i < kFaults; ++i) {
    const auto kind = static_cast<FaultKind>(1 + i % 4);
    const Job job = DrawJob(scenario, kind, random);
    errors.push_back(CheckFault(job, CaptureJob(job)));
  }
  std::sort(errors.begin(), errors.end());
  std::cout << "culprit's milliseconds: median error " << errors[errors.size() / 2] << ", worst "
            << errors.back() << "\n";
}

// Each fault runs in full, at half its size, and not at all. The replay of the first run predicts the other
// two.
TEST(Evaluation, PredictedGainsOfHalfAndFullFixesComeTrue) {
  std::mt19937_64 random(51);
  const scenario::Scenario scenario = *scenario::MakeTransformer({});
  std::vector<double> errors;
  for (int i = 0; i < kPairs; ++i) {
    // A link is not a rank's own work. Its gain is that of the finding, which another test checks.
    constexpr FaultKind kOwn[] = {FaultKind::kSlowGpu, FaultKind::kHostStall, FaultKind::kCopy};
    const Job job = DrawJob(scenario, kOwn[i % 3], random);
    const capture::Capture capture = CaptureJob(job);
    const Prepared prepared(capture);
    const GraphInput input = prepared.input();
    Gains gains(input);
    const Nanos step =
        tests::TrueStep(sim::DryRun(scenario, job.settings, kSteps), job.options.from, job.options.to);
    for (const double removed : {0.5, 1.0}) {
      sim::ModelSettings less = job.settings;
      less.fault.factor_ppm =
          static_cast<int64_t>(static_cast<double>(job.settings.fault.factor_ppm) * (1 - removed));
      less.fault.extra =
          Nanos(static_cast<int64_t>(static_cast<double>(job.settings.fault.extra.ns()) * (1 - removed)));
      const auto truth = static_cast<double>(
          (step - tests::TrueStep(sim::DryRun(scenario, less, kSteps), job.options.from, job.options.to))
              .ns());
      const std::vector<double> gain =
          gains.Of({.rank_indices = {job.settings.fault.rank}, .owners = {}, .strength = removed});
      const double predicted =
          std::accumulate(gain.begin(), gain.end(), 0.0) / static_cast<double>(gain.size());
      errors.push_back(std::fabs(predicted / truth - 1));
      EXPECT_LT(errors.back(), 0.08) << sim::FaultName(job.settings.fault.kind) << " of "
                                     << job.settings.fault.size << " on rank " << job.settings.fault.rank
                                     << ", " << removed << " removed, seed " << job.settings.seed;
    }
  }
  std::sort(errors.begin(), errors.end());
  std::cout << "predicted gain over " << errors.size() << " pairs: median error " << errors[errors.size() / 2]
            << ", p90 " << errors[errors.size() * 9 / 10] << ", worst " << errors.back() << "\n";
  EXPECT_LT(errors[errors.size() / 2], 0.01);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.03);
}

TEST(Evaluation, HealthyJobsHaveNoStraggler) {
  std::mt19937_64 random(77);
  const scenario::Scenario scenario = *scenario::MakeTransformer({});
  for (int i = 0; i < kHealthy; ++i) {
    const Diagnosis d = DiagnoseCapture(CaptureJob(DrawJob(scenario, FaultKind::kNone, random)));
    EXPECT_TRUE(d.findings.empty()) << "rank " << d.findings[0].rank_indices[0] << " blamed with "
                                    << d.findings[0].lost_ns;
    ASSERT_TRUE(d.noise_floor_ns.has_value());
    EXPECT_LT(*d.noise_floor_ns, 0.02 * d.step_ns);
  }
}

TEST(Evaluation, WorksForOtherShapesAndNoise) {
  std::mt19937_64 random(5);
  std::vector<scenario::TransformerShape> shapes(4);
  shapes[0].data_parallel = 4, shapes[0].tensor_parallel = 1, shapes[0].pipeline_parallel = 1;
  shapes[1].data_parallel = 2, shapes[1].tensor_parallel = 4, shapes[1].pipeline_parallel = 2;
  shapes[2].data_parallel = 2, shapes[2].tensor_parallel = 1, shapes[2].pipeline_parallel = 4;
  shapes[3].noise_ppm = 30'000;
  for (const auto& shape : shapes) {
    const auto scenario = scenario::MakeTransformer(shape);
    ASSERT_TRUE(scenario.ok());
    for (const FaultKind kind : {FaultKind::kSlowGpu, FaultKind::kHostStall, FaultKind::kCopy}) {
      const Job job = DrawJob(*scenario, kind, random);
      CheckFault(job, CaptureJob(job));
    }
  }
}

TEST(Evaluation, ClockOffsetsOfTenMillisecondsDoNotChangeTheResult) {
  std::mt19937_64 random(9);
  const scenario::Scenario scenario = *scenario::MakeTransformer({});
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int i = 0; i < 8; ++i) {
    Job job = DrawJob(scenario, static_cast<FaultKind>(1 + i % 4), random);
    for (size_t r = 0; r < 8; ++r) {
      job.options.clocks.push_back({Nanos(static_cast<int64_t>(unit(random) * 1e7)), unit(random) * 50e-6});
    }
    CheckFault(job, CaptureJob(job));
  }
}

TEST(Evaluation, WorksWithoutRecordedDependenciesBetweenStreams) {
  std::mt19937_64 random(31);
  const scenario::Scenario scenario = *scenario::MakeTransformer({});
  for (int i = 0; i < 8; ++i) {
    Job job = DrawJob(scenario, static_cast<FaultKind>(1 + i % 4), random);
    job.options.with_events = false;
    CheckFault(job, CaptureJob(job));
  }
}

TEST(Evaluation, InferredCommunicatorsGiveTheSameVerdict) {
  std::mt19937_64 random(13);
  const scenario::Scenario scenario = *scenario::MakeTransformer({});
  for (int i = 0; i < kFaults / 4; ++i) {
    Job job = DrawJob(scenario, static_cast<FaultKind>(i % 5), random);
    job.options.with_sequences = false;
    const capture::Capture capture = CaptureJob(job);
    EXPECT_GE(capture::Match(capture).MatchedFraction().value_or(0), 0.99);
    if (job.settings.fault.kind == FaultKind::kNone) {
      EXPECT_TRUE(DiagnoseCapture(capture).findings.empty());
    } else {
      CheckFault(job, capture);
    }
  }
}

TEST(Evaluation, InferredStepsGiveTheSameVerdict) {
  std::mt19937_64 random(17);
  std::vector<scenario::TransformerShape> shapes(3);
  shapes[1].data_parallel = 4, shapes[1].tensor_parallel = 1, shapes[1].pipeline_parallel = 1;
  shapes[2].data_parallel = 1, shapes[2].tensor_parallel = 2, shapes[2].pipeline_parallel = 4,
  shapes[2].microbatches = 8;
  for (int i = 0; i < kFaults / 4; ++i) {
    const scenario::Scenario scenario =
        *scenario::MakeTransformer(shapes[static_cast<size_t>(i) % shapes.size()]);
    const Job job = DrawJob(scenario, static_cast<FaultKind>(i % 5), random);
    capture::Capture capture = CaptureJob(job);
    const Steps marked = StepsOf(capture);
    for (capture::RankData& rank : capture.ranks)
      std::erase_if(rank.ranges, [](const auto& range) { return range.kind == capture::RangeKind::kStep; });
    const Steps found = StepsOf(capture);
    EXPECT_EQ(found.source, StepSource::kPeriod);
    EXPECT_NEAR(static_cast<double>(found.count()), static_cast<double>(marked.count()), 1.0);
    for (size_t r = 0; r < capture.ranks.size(); ++r) {
      // Steps have the same length on every rank. Work that is one step's by its mark is one step's here,
      // apart from the begin of the steps.
      for (size_t k = 1; k + 1 < found.count(); ++k) {
        EXPECT_NEAR(static_cast<double>(found.ranks[r].steps[k].activities),
                    static_cast<double>(marked.ranks[r].steps[1].activities), 2.0);
      }
    }
    if (job.settings.fault.kind == FaultKind::kNone) {
      EXPECT_TRUE(DiagnoseCapture(capture).findings.empty());
    } else {
      CheckFault(job, capture);
    }
  }
}

TEST(Evaluation, NamesBothCulpritsWithTheirJointGain) {
  const scenario::Scenario scenario = *scenario::MakeTransformer({});
  sim::ModelSettings settings;
  settings.seed = 3;
  const auto healthy = sim::DryRun(scenario, settings, kSteps);
  // The model has one fault, so the scenario itself stretches the second culprit's copies.
  scenario::Scenario both = scenario;
  for (scenario::Op& op : both.ranks[6].program) {
    if (op.kind == scenario::OpKind::kCopy && op.bytes > 1'000'000) op.service_time = op.service_time * 40;
  }
  ASSERT_TRUE(sim::SizeFault(scenario, FaultKind::kSlowGpu, 1, 0.15, sim::MeanStep(scenario, healthy),
                             &settings.fault));
  tests::SimCaptureOptions options;
  options.from = VirtualTime(450'000'000);
  options.to = options.from + kWindow;
  const auto world = sim::DryRun(both, settings, kSteps);
  const Diagnosis d = DiagnoseCapture(tests::CaptureOf(both, world, options));
  const auto truth = static_cast<double>(
      (tests::TrueStep(world, options.from, options.to) - tests::TrueStep(healthy, options.from, options.to))
          .ns());
  ASSERT_EQ(d.findings.size(), 2u);
  std::vector<uint32_t> named = {d.findings[0].rank_indices[0], d.findings[1].rank_indices[0]};
  std::sort(named.begin(), named.end());
  EXPECT_EQ(named, (std::vector<uint32_t>{1, 6}));
  ASSERT_FALSE(d.fixes.empty());
  EXPECT_EQ(d.fixes[0].entries, (std::vector<uint32_t>{0, 1}));
  const std::vector<double>& gain = d.fixes[0].gain_per_step;
  EXPECT_NEAR(std::accumulate(gain.begin(), gain.end(), 0.0) / static_cast<double>(gain.size()), truth,
              0.05 * truth);
}

TEST(Evaluation, TooFewStepsDecideNothing) {
  const scenario::Scenario scenario = *scenario::MakeTransformer({});
  std::mt19937_64 random(8);
  Job job = DrawJob(scenario, FaultKind::kSlowGpu, random);
  job.options.to = job.options.from + Nanos::Millis(330);
  const Diagnosis d = DiagnoseCapture(CaptureJob(job));
  EXPECT_FALSE(d.noise_floor_ns.has_value());
  for (const Finding& f : d.findings) EXPECT_EQ(f.verdict, Verdict::kUndecided);
}

}  // namespace
}  // namespace lockstep::analysis
