#include "analysis/time/device_use.h"

#include "capture/model/timeline_builder_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

using capture::TimelineBuilder;
using capture::Us;

// One step of 10 ms on one rank.
std::vector<DeviceUse> UseOf(TimelineBuilder& t) {
  const capture::Capture capture = t.Build();
  const capture::Matches matches = capture::Match(capture);
  const capture::ClockModel clock = capture::EstimateClocks(capture, matches);
  const std::vector<CallIndex> calls = {CallIndex(capture.ranks[0])};
  const Steps steps = FindSteps(capture, clock, calls);
  const CollectiveTimes times = TimeCollectives(capture, matches, clock);
  return DeviceUseOfSteps(capture, capture.ranks[0], steps.ranks[0], times.parts[0], calls[0]);
}

// The host is in the data loader, silent, and busy in turn before it launches the first kernel.
TEST(DeviceUse, IdleTimeBeforeALaunchIsDividedByWhatTheHostDoes) {
  TimelineBuilder t;
  t.Rank(0)
      .Step(0, 0, 10'000)
      .Kernel("before", 0, 1'000, 7, 0)
      .Range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1'000, 3'000)
      .Api("cudaMalloc", 6'500, 400)
      .Kernel("gemm", 7'005, 2'000, 7, 7'000);
  const std::vector<DeviceUse> use = UseOf(t);
  ASSERT_EQ(use.size(), 1u);
  EXPECT_EQ(use[0].compute, Us(3'000));
  EXPECT_EQ(use[0].input, Us(3'000));
  EXPECT_EQ(use[0].host_silent, Us(2'500)) << "from the loader's end to the call";
  EXPECT_EQ(use[0].host_launch, Us(500)) << "the call, and the short time to the launch";
}

TEST(DeviceUse, IdleTimeBehindALaunchIsNotTheHosts) {
  TimelineBuilder t;
  t.Rank(0)
      .Step(0, 0, 10'000)
      .Range("enumerate(DataLoader)#next", 1'500, 3'000)
      .Kernel("first", 0, 1'000, 7, 0)
      .Kernel("waits for an event", 6'000, 4'000, 8, 100);
  const std::vector<DeviceUse> use = UseOf(t);
  ASSERT_EQ(use.size(), 1u);
  EXPECT_EQ(use[0].idle_other, Us(5'000));
  EXPECT_EQ(use[0].input, Nanos()) << "the loader runs beside it, but the next work is launched";
}

TEST(DeviceUse, WithoutCallsTheReasonOfIdleTimeIsUnknown) {
  TimelineBuilder t;
  t.Rank(0)
      .Step(0, 0, 10'000)
      .Kernel("a", 0, 1'000)
      .Range("enumerate(DataLoader)#next", 1'000, 600)
      .Copy(1 << 20, 2'000, 500)
      .Kernel("b", 6'000, 4'000);
  const std::vector<DeviceUse> use = UseOf(t);
  ASSERT_EQ(use.size(), 1u);
  EXPECT_EQ(use[0].copies, Us(500));
  EXPECT_EQ(use[0].input, Us(600));
  EXPECT_EQ(use[0].host_launch + use[0].host_silent, Nanos());
  EXPECT_EQ(use[0].idle_other, Us(3'900));
}

}  // namespace
}  // namespace lockstep::analysis
