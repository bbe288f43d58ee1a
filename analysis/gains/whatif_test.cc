// Predictions compared with the same simulated job, run without the fault.
#include "analysis/gains/whatif.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scenario/generator.h"
#include "sim/engine/dry_run.h"
#include "tests/support/sim_capture.h"

namespace lockstep::analysis {
namespace {

using sim::FaultKind;
using ::testing::HasSubstr;

constexpr uint32_t kWhatifSteps = 14;

scenario::Scenario Job() { return *scenario::MakeTransformer({}); }

capture::Capture CaptureOf(const scenario::Scenario& scenario, const sim::ModelSettings& settings) {
  tests::SimCaptureOptions options;
  options.from = VirtualTime(300'000'000);
  options.to = options.from + Nanos::Millis(1200);
  return tests::CaptureOf(scenario, sim::DryRun(scenario, settings, kWhatifSteps), options);
}

double StepOf(const scenario::Scenario& scenario, const sim::ModelSettings& settings) {
  return static_cast<double>(sim::MeanStep(scenario, sim::DryRun(scenario, settings, kWhatifSteps)).ns());
}

sim::ModelSettings Fault(const scenario::Scenario& scenario, FaultKind kind, uint32_t rank, double size) {
  sim::ModelSettings settings;
  settings.seed = 21;
  const double healthy = StepOf(scenario, settings);
  EXPECT_TRUE(
      sim::SizeFault(scenario, kind, rank, size, Nanos(static_cast<int64_t>(healthy)), &settings.fault));
  return settings;
}

WhatIfResult RunWhatIf(const capture::Capture& capture, const std::string& fix,
                       std::optional<double> scale = {}, double strength = 1) {
  const Prepared prepared(capture);
  const auto targets = ParseFixTargets(fix);
  EXPECT_TRUE(targets.ok()) << targets.status();
  const auto result = WhatIf(prepared, {*targets, scale, strength});
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

std::string Refusal(const capture::Capture& capture, const std::string& fix) {
  const Prepared prepared(capture);
  const auto targets = ParseFixTargets(fix);
  if (!targets.ok()) return std::string(targets.status().message());
  const auto result = WhatIf(prepared, {*targets, {}, 1});
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : std::string(result.status().message());
}

TEST(WhatIf, HalfAndFullFixesEqualThoseJobs) {
  const scenario::Scenario scenario = Job();
  for (const FaultKind kind : {FaultKind::kSlowGpu, FaultKind::kHostStall, FaultKind::kCopy}) {
    const sim::ModelSettings settings = Fault(scenario, kind, 5, 0.2);
    const capture::Capture capture = CaptureOf(scenario, settings);
    const double faulty = StepOf(scenario, settings);
    for (const double strength : {0.5, 1.0}) {
      sim::ModelSettings less = settings;
      less.fault.factor_ppm =
          static_cast<int64_t>(static_cast<double>(settings.fault.factor_ppm) * (1 - strength));
      less.fault.extra =
          Nanos(static_cast<int64_t>(static_cast<double>(settings.fault.extra.ns()) * (1 - strength)));
      const double truth = faulty - StepOf(scenario, less);
      const WhatIfResult r = RunWhatIf(capture, "rank=5", {}, strength);
      EXPECT_NEAR(r.gain_ns, truth, 0.05 * truth) << sim::FaultName(kind) << " by " << strength;
      ASSERT_TRUE(r.gain_interval.has_value());
      EXPECT_LE(r.gain_interval->low, r.gain_ns);
      EXPECT_GE(r.gain_interval->high, r.gain_ns);
      EXPECT_NEAR(r.new_step_ns, r.step_ns - r.gain_ns, 1e-3);
    }
  }
}

TEST(WhatIf, MakingAGroupsTransfersTypicalGivesAHealthyLink) {
  const scenario::Scenario scenario = Job();
  const sim::ModelSettings settings = Fault(scenario, FaultKind::kSlowLink, 2, 0.2);
  const capture::Capture capture = CaptureOf(scenario, settings);
  sim::ModelSettings healthy = settings;
  healthy.fault = {};
  const double truth = StepOf(scenario, settings) - StepOf(scenario, healthy);
  std::string groups;
  for (const scenario::Group& g : scenario.groups) {
    const bool has = std::find(g.members.begin(), g.members.end(), 2u) != g.members.end();
    if (has && g.members.size() < 8) groups += (groups.empty() ? "group=" : ",group=") + g.name;
  }
  EXPECT_NEAR(RunWhatIf(capture, groups).gain_ns, truth, 0.1 * truth);
  // The rank's link carries all these groups, and the group of all ranks, which has no peers.
  const WhatIfResult link = RunWhatIf(capture, "link=2");
  EXPECT_DOUBLE_EQ(link.gain_ns, RunWhatIf(capture, groups).gain_ns);
  EXPECT_THAT(link.parts[0].what, HasSubstr("of rank 2 (GPU 2 of "));
}

// Kernels of one name are scaled on every rank. The truth is the same job with faster kernels.
TEST(WhatIf, AScaledOperationEqualsAJobWithFasterKernels) {
  const scenario::Scenario scenario = Job();
  sim::ModelSettings settings;
  settings.seed = 4;
  scenario::Scenario faster = scenario;
  for (scenario::Rank& rank : faster.ranks) {
    for (scenario::Op& op : rank.program) {
      if (op.kind == scenario::OpKind::kKernel && faster.names[op.name].find("flash_") != std::string::npos)
        op.service_time = Nanos(op.service_time.ns() / 2);
    }
  }
  const double truth = StepOf(scenario, settings) - StepOf(faster, settings);
  const WhatIfResult r = RunWhatIf(CaptureOf(scenario, settings), "op=flash_(fwd|bwd)", 0.5);
  EXPECT_NEAR(r.gain_ns, truth, 0.02 * truth);
  EXPECT_EQ(r.parts[0].ranks.size(), 8u);
  EXPECT_EQ(r.parts[0].units, r.units_changed);
}

TEST(WhatIf, FixingAStageBalancesIt) {
  scenario::TransformerShape shape;
  shape.data_parallel = 2, shape.tensor_parallel = 1, shape.pipeline_parallel = 4;
  const scenario::Scenario scenario = *scenario::MakeTransformer(shape);
  scenario::Scenario heavy = scenario;
  for (uint32_t r = 2; r < 4; ++r) {
    for (scenario::Op& op : heavy.ranks[r].program) {
      if (op.kind == scenario::OpKind::kKernel) op.service_time = Nanos(op.service_time.ns() * 5 / 4);
    }
  }
  sim::ModelSettings settings;
  const double truth = StepOf(heavy, settings) - StepOf(scenario, settings);
  const capture::Capture capture = CaptureOf(heavy, settings);
  const WhatIfResult r = RunWhatIf(capture, "stage=1");
  EXPECT_NEAR(r.gain_ns, truth, 0.1 * truth);
  EXPECT_THAT(r.parts[0].what, HasSubstr("ranks 2-3"));
  EXPECT_EQ(RunWhatIf(capture, "stage=2").units_changed, 0u) << "the others are not made slower";
  EXPECT_THAT(Refusal(capture, "stage=4"), HasSubstr("there are stages 0-3"));
}

TEST(WhatIf, AHostFixesAllItsRanks) {
  const scenario::Scenario scenario = Job();
  const capture::Capture capture = CaptureOf(scenario, Fault(scenario, FaultKind::kSlowGpu, 1, 0.1));
  ASSERT_EQ(capture.hosts.size(), 1u);
  const WhatIfResult r = RunWhatIf(capture, "host=" + capture.hosts[0].name, 0.9);
  EXPECT_EQ(r.parts[0].ranks.size(), 8u);
  EXPECT_GT(r.gain_ns, 0.05 * r.step_ns);
  EXPECT_LT(r.gain_ns, 0.1 * r.step_ns) << "transfers are not the host's";
}

TEST(WhatIf, RefusalsListTheKnownTargets) {
  const scenario::Scenario scenario = Job();
  const capture::Capture capture = CaptureOf(scenario, {});
  EXPECT_THAT(Refusal(capture, "rank=8"), HasSubstr("there are 0-7"));
  EXPECT_THAT(Refusal(capture, "link=8"), HasSubstr("there are 0-7"));
  EXPECT_THAT(Refusal(capture, "rank=x"), HasSubstr("a rank is a number"));
  EXPECT_THAT(Refusal(capture, "host=elsewhere"), HasSubstr(capture.hosts[0].name));
  EXPECT_THAT(Refusal(capture, "group=none"), HasSubstr("data_0, "));
  EXPECT_THAT(Refusal(capture, "op=no such kernel"), HasSubstr("the most expensive operations are"));
  EXPECT_THAT(Refusal(capture, "op=("), HasSubstr("not a valid regular expression"));
  EXPECT_THAT(Refusal(capture, "gpu=3"), HasSubstr("'gpu=3' is not one of"));
  EXPECT_THAT(Refusal(capture, "rank="), HasSubstr("no value follows"));
  EXPECT_THAT(Refusal(capture, ""), HasSubstr("is not one of"));
  const capture::Capture empty;
  EXPECT_THAT(Refusal(empty, "rank=0"), HasSubstr("nothing to replay"));
}

TEST(WhatIf, ACommaInsideARegularExpressionDoesNotSplitIt) {
  const auto targets = ParseFixTargets("op=a{1,2}b,rank=3,host=x,y");
  ASSERT_TRUE(targets.ok());
  ASSERT_EQ(targets->size(), 3u);
  EXPECT_EQ((*targets)[0].value, "a{1,2}b");
  EXPECT_EQ((*targets)[1].value, "3");
  EXPECT_EQ((*targets)[2].value, "x,y");
}

TEST(WhatIf, RefusesInvalidFactors) {
  const capture::Capture capture = CaptureOf(Job(), {});
  const Prepared prepared(capture);
  for (const double bad : {0.0, -1.0, std::nan("")}) {
    EXPECT_FALSE(WhatIf(prepared, {{{FixKind::kRank, "1"}}, bad, 1}).ok());
    EXPECT_FALSE(WhatIf(prepared, {{{FixKind::kRank, "1"}}, {}, bad}).ok());
  }
}

}  // namespace
}  // namespace lockstep::analysis
