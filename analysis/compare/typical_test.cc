// Ideal steps of jobs whose steps are not alike.
#include "analysis/compare/typical.h"

#include <numeric>

#include "analysis/compare/light_steps.h"
#include "analysis/gains/gains.h"
#include "analysis/replay/prepared.h"
#include "gtest/gtest.h"
#include "tests/support/small_job.h"

namespace lockstep::analysis {
namespace {

struct Slowdown {
  double step_ns, ideal_step_ns;
};

Slowdown SlowdownOf(const tests::SmallJob& job) {
  const capture::Capture capture = CaptureOf(job);
  const Prepared prepared(capture);
  const GraphInput input = prepared.input();
  Gains gains(input);
  gains.Measure();
  return {gains.step_ns(), gains.ideal_step_ns()};
}

bool IsShort(int step) { return step % 5 < 2; }  // two steps of five

// A smaller batch does not come from the ranks, so the ideal step is shorter too.
TEST(Ideal, IdealStepsKeepLightSteps) {
  tests::SmallJob job;
  const Slowdown alike = SlowdownOf(job);
  EXPECT_GE(alike.step_ns, alike.ideal_step_ns);
  for (const double factor : {0.4, 0.7, 0.9}) {
    job.drift = [&](int, int step) { return IsShort(step) ? factor : 1.0; };
    const Slowdown shorter = SlowdownOf(job);
    EXPECT_LT(shorter.step_ns, 0.99 * alike.step_ns) << factor;
    EXPECT_GE(shorter.step_ns, shorter.ideal_step_ns) << factor;
    EXPECT_NEAR(shorter.step_ns / shorter.ideal_step_ns, alike.step_ns / alike.ideal_step_ns, 0.01) << factor;
  }
}

// The mean of two ranks would contain half of the slow one's delay.
TEST(Ideal, OfTwoRanksTheFasterOneIsTypical) {
  tests::SmallJob job;
  job.data_parallel = 2;
  job.tensor_parallel = 1;
  job.pipeline = 2;
  const Slowdown alike = SlowdownOf(job);
  job.copy = [](int rank, int) { return rank == 2 ? 20.0 : 1.0; };
  job.gap_us = [](const tests::CallAt& at) { return at.rank == 1 && at.head ? 2'000.0 : 0.0; };
  const Slowdown slow = SlowdownOf(job);
  EXPECT_GT(slow.step_ns, 1.15 * alike.step_ns);
  EXPECT_NEAR(slow.ideal_step_ns, alike.ideal_step_ns, 0.01 * alike.ideal_step_ns);
}

TEST(Ideal, IdealStepsKeepHostTimesThatAllRanksShare) {
  tests::SmallJob job;
  job.gap_us = [](const tests::CallAt& at) { return at.end && !IsShort(at.step) ? 3'000.0 : 0.0; };
  const Slowdown slowdown = SlowdownOf(job);
  EXPECT_GE(slowdown.step_ns, slowdown.ideal_step_ns);
  EXPECT_LT(slowdown.step_ns, 1.05 * slowdown.ideal_step_ns);
}

// The typical value stays if a few ranks are faster, or all ranks are slower, in less than half of the steps.
TEST(Ideal, FewFastRanksOrCommonSlowStepsAreNotLessWork) {
  tests::SmallJob job;
  const Slowdown alike = SlowdownOf(job);
  job.drift = [](int rank, int step) { return rank < 3 && IsShort(step) ? 0.5 : 1.0; };
  EXPECT_NEAR(SlowdownOf(job).ideal_step_ns, alike.ideal_step_ns, 0.005 * alike.ideal_step_ns);
  job.drift = [](int, int step) { return IsShort(step) ? 1.5 : 1.0; };
  const Slowdown slower = SlowdownOf(job);
  // The median over all steps is then one of the larger values among the steps that are not slower.
  EXPECT_NEAR(slower.ideal_step_ns, alike.ideal_step_ns, 0.01 * alike.ideal_step_ns);
  EXPECT_GT(slower.step_ns, 1.1 * slower.ideal_step_ns);
}

std::vector<int32_t> LightOf(std::vector<StepValue> values, double sigma) {
  std::vector<int32_t> steps;
  for (const StepValue& v :
       FindLightSteps(std::span(values), {.ns = 100'000, .sigma = sigma, .least_share = 0.01}))
    steps.push_back(v.step);
  return steps;
}

TEST(LightSteps, MoreRanksShowSmallerDifferences) {
  std::vector<StepValue> one, many;
  for (int32_t step = 0; step < 4; ++step) {
    const double ns = step == 2 ? 95'000 : step == 1 ? 40'000 : 100'000;
    one.push_back({step, ns});
    for (int rank = 0; rank < 25; ++rank) many.push_back({step, ns});
  }
  EXPECT_EQ(LightOf(one, 2'000), (std::vector<int32_t>{1}));
  EXPECT_EQ(LightOf(many, 2'000), (std::vector<int32_t>{1, 2}));
}

TEST(LightSteps, OfTwoRanksBothMustBeFaster) {
  EXPECT_TRUE(LightOf({{0, 50'000}, {0, 100'000}, {1, 100'000}, {1, 100'000}}, 100).empty());
  EXPECT_EQ(LightOf({{1, 100'000}, {1, 100'000}, {0, 50'000}, {0, 60'000}}, 100), (std::vector<int32_t>{0}));
}

}  // namespace
}  // namespace lockstep::analysis
