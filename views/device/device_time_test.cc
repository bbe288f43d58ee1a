#include "views/device/device_time.h"

#include <gtest/gtest.h>

#include "capture/model/timeline_builder_fixture.h"

namespace lockstep::views {
namespace {

using capture::TimelineBuilder;
using capture::Us;

TEST(DeviceTime, EachMomentCountsForExactlyOneSetOfKinds) {
  TimelineBuilder t;
  const uint32_t group = t.Group("dp", {0});
  // The device computes from 10 to 40 us, communicates from 30 to 60, copies from 55 to 70, is idle until 80,
  // and computes from 80 to 90.
  t.Rank(0).Kernel("gemm", 10, 30).AllReduce(group, 30, 30).Copy(4096, 55, 15).Kernel("gemm", 80, 10);
  t.Rank(1);
  const auto times = DeviceTimesOf(t.Build(), DeviceRule::kLockstep);
  ASSERT_EQ(times.size(), 1u) << "a device that did nothing has no row";
  const DeviceTime& time = times[0];
  EXPECT_EQ(time.span, Us(80));
  EXPECT_EQ(time.idle(), Us(10));
  EXPECT_EQ(time.together[kComputing], Us(30));
  EXPECT_EQ(time.together[kComputing | kCommunicating], Us(10));
  EXPECT_EQ(time.together[kCommunicating], Us(15));
  EXPECT_EQ(time.together[kCommunicating | kCopying], Us(5));
  EXPECT_EQ(time.together[kCopying], Us(10));
  EXPECT_EQ(time.TimeWithAll(kComputing), Us(40));
  EXPECT_EQ(time.TimeWithAll(kCommunicating), Us(30));
  Nanos sum;
  for (const Nanos part : time.together) sum += part;
  EXPECT_EQ(sum, time.span);
}

TEST(StreamIdle, AGapBeforeALateLaunchIsTheHosts) {
  TimelineBuilder t;
  t.Rank(0)
      .Kernel("first", 10, 10, 7, 1)
      .Kernel("in time", 25, 5, 7, 2)  // 5 us after the first: the cost of launching
      .Kernel("held", 100, 5, 7, 3)    // 70 us later, although launched long before
      .Kernel("late", 200, 5, 7, 190)  // launched 85 us after the stream became idle
      .Kernel("elsewhere", 12, 3, 8, 4);
  const auto idle = StreamIdleOf(t.Build(), DeviceRule::kLockstep);
  ASSERT_EQ(idle.size(), 2u);
  EXPECT_EQ(idle[0].stream, StreamId(7));
  EXPECT_EQ(idle[0].gaps, 3u);
  EXPECT_EQ(idle[0].kernel_wait, Us(5));
  EXPECT_EQ(idle[0].other, Us(70));
  EXPECT_EQ(idle[0].host_wait, Us(95));
  EXPECT_EQ(idle[1].gaps, 0u);
}

TEST(StreamIdle, OverlappingWorkLeavesNoGapExceptByHtasRule) {
  TimelineBuilder t;
  t.Rank(0).Kernel("long", 10, 100, 7, 1).Kernel("inside", 20, 10, 7, 2).Kernel("after", 120, 10, 7, 3);
  const capture::Capture capture = t.Build();
  const auto ours = StreamIdleOf(capture, DeviceRule::kLockstep);
  EXPECT_EQ(ours[0].gaps, 1u);
  EXPECT_EQ(ours[0].kernel_wait, Us(10));
  const auto hta = StreamIdleOf(capture, DeviceRule::kHta);
  EXPECT_EQ(hta[0].gaps, 2u);
  EXPECT_EQ(hta[0].kernel_wait, Us(-90)) << "20 - 110";
  EXPECT_EQ(hta[0].other, Us(90)) << "120 - 30";
}

TEST(DeviceWork, HtasRuleExcludesTheLastStepAndWorkWithoutALaunch) {
  TimelineBuilder t;
  t.Rank(0)
      .Step(1, 0, 100)
      .Step(2, 100, 100)
      .Kernel("unlaunched", 5, 5)
      .Kernel("one", 20, 10, 7, 10)
      .Kernel("queued over the border", 110, 10, 7, 90)
      .Kernel("two", 130, 10, 7, 120);
  const capture::Capture capture = t.Build();
  EXPECT_EQ(DeviceWorkOf(capture.ranks[0], DeviceRule::kLockstep).size(), 4u);
  EXPECT_EQ(DeviceWorkOf(capture.ranks[0], DeviceRule::kHta).size(), 2u);
}

}  // namespace
}  // namespace lockstep::views
