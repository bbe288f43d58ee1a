#include "analysis/gains/host_pace.h"

#include <string>

#include "analysis/gains/gains.h"
#include "analysis/replay/prepared.h"
#include "base/median.h"
#include "gtest/gtest.h"
#include "scenario/scenario.h"
#include "sim/engine/dry_run.h"
#include "tests/support/sim_capture.h"

namespace lockstep::analysis {
namespace {

constexpr uint32_t kPacedRanks = 4, kPacedSteps = 16;

// Each step is a kernel of 900 us and an all-reduce of 30 us on every rank. Its host takes 1 ms to launch
// them, so that it is the host who sets the pace. `slow_us`: the kernel of rank 1. `wait`: of the last call.
scenario::Scenario PacedJob(int slow_us, const std::string& wait = "") {
  std::string text =
      "lockstep-scenario 1\nname k\nname "
      "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)\n"
      "name ProfilerStep#{step}\ngroup comm=7 name=world members=0,1,2,3\n";
  for (uint32_t r = 0; r < kPacedRanks; ++r) {
    const std::string kernel = std::to_string(1000 * (r == 1 ? slow_us : 900));
    text +=
        "rank host=a device=" + std::to_string(r) +
        "\nstream id=7\nthread id=0\npush t0 n2 gap=0\ncall t0 r211 gap=1000 own=4000\n"
        "kernel s0 n0 gap=1000 own=" +
        kernel +
        " grid=1,1,1 block=32,1,1\ncall t0 r211 gap=1000 own=4000\n"
        "coll s0 n1 g0 all_reduce gap=1000 own=30000 bytes=4096 type=ncclFloat32 grid=1,1,1 block=32,1,1\n"
        "call t0 r131 gap=989000 own=1000" +
        wait + "\npop t0 gap=0\n";
  }
  absl::StatusOr<scenario::Scenario> s = scenario::Parse(text, "test");
  EXPECT_TRUE(s.ok()) << s.status();
  return *s;
}

// The mean over many steps, until the last device is done.
double PacedStepUs(const scenario::Scenario& s) {
  constexpr int kMany = 400;
  const sim::WorldHistory world = sim::DryRun(s, {}, kMany);
  return static_cast<double>(world.ranks[0].end.ns()) / 1000 / kMany;
}

double GainOfRankOneUs(const scenario::Scenario& s) {
  // From the fifth step on, until the devices have run as many steps.
  tests::SimCaptureOptions options{.from = VirtualTime(5'100'000), .to = VirtualTime(60'000'000)};
  const capture::Capture capture = tests::CaptureOf(s, sim::DryRun(s, {}, kPacedSteps), options);
  const Prepared prepared(capture);
  const GraphInput input = prepared.input();
  Gains gains(input);
  gains.Measure();
  EXPECT_GE(gains.steps(), 6u);
  return Mean(gains.Of({.rank_indices = {1}, .owners = {}})) / 1000;
}

// Without the limit, the replay promises 450 us, because the device then takes only 930 us per step.
TEST(HostPace, AFixedDeviceWaitsForItsHost) {
  const double truth = PacedStepUs(PacedJob(1350)) - PacedStepUs(PacedJob(900));
  EXPECT_NEAR(truth, 382, 5);
  EXPECT_NEAR(GainOfRankOneUs(PacedJob(1350)), truth, 5);
}

// The host's pace is that of the device, which it awaits. So it does not limit the gain.
TEST(HostPace, AHostThatWaitsForItsDeviceKeepsUp) {
  const double truth = PacedStepUs(PacedJob(1950, " wait=all")) - PacedStepUs(PacedJob(1200, " wait=all"));
  EXPECT_GT(truth, 700);
  EXPECT_GT(GainOfRankOneUs(PacedJob(1950, " wait=all")), truth);
}

}  // namespace
}  // namespace lockstep::analysis
