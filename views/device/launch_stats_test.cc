#include "views/device/launch_stats.h"

#include <gtest/gtest.h>

#include <string_view>

#include "capture/model/timeline_builder_fixture.h"

namespace lockstep::views {
namespace {

using capture::TimelineBuilder;
using capture::Us;

// Returns the length of the launches that the builder makes.
Nanos CallLength(const capture::Capture& capture) {
  return capture.ranks[0].api_calls[0].end - capture.ranks[0].api_calls[0].start;
}

TEST(LaunchStats, DelayCountsFromTheEndOfTheCallAndIsNeverNegative) {
  TimelineBuilder t;
  t.Rank(0)
      .Kernel("gemm", 50, 100, 7, 10)
      .Kernel("gemm", 400, 100, 7, 20)
      .Kernel("tiny", 30.5, 0.5, 8, 30)
      .Kernel("unlaunched", 600, 5);
  const capture::Capture capture = t.Build();
  const Nanos call = CallLength(capture);
  const auto rows = LaunchStatsOf(capture, LaunchRanks::kTogether, DeviceRule::kLockstep);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_FALSE(rows[0].name);
  EXPECT_EQ(rows[0].calls, 3u);
  EXPECT_EQ(rows[0].late_starts, 1u);
  ASSERT_TRUE(rows[1].name);
  EXPECT_EQ(capture.Text(*rows[1].name), "gemm");
  EXPECT_EQ(rows[1].delay, Us(40) + Us(380) - call - call);
  EXPECT_EQ(rows[1].longest_delay, Us(380) - call);
  EXPECT_EQ(rows[1].device, Us(200));
  EXPECT_EQ(capture.Text(*rows[2].name), "tiny");
  EXPECT_GE(rows[2].delay, Nanos());
  EXPECT_EQ(rows[2].shorter_than_call, call > Nanos(500) ? 1u : 0u);
}

TEST(StreamQueues, LengthIsTheLaunchedWorkThatHasNotStarted) {
  TimelineBuilder t;
  t.Rank(0).Kernel("a", 10, 30, 7, 0).Kernel("b", 40, 30, 7, 2).Kernel("c", 70, 30, 7, 4);
  const auto queues = StreamQueuesOf(t.Build(), DeviceRule::kLockstep);
  ASSERT_EQ(queues.size(), 1u);
  EXPECT_EQ(queues[0].launches, 3u);
  EXPECT_EQ(queues[0].longest, 3u);
  // Over 70 us, a waits 10, b 38 and c 66 us.
  EXPECT_NEAR(queues[0].mean, 114.0 / 70, 1e-9);
  EXPECT_EQ(queues[0].full, Nanos());
}

TEST(StreamQueues, HtaCountsLaunchesOfTheDriverInQueuesOnly) {
  for (const char* call : {"cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch"}) {
    TimelineBuilder t;
    t.Rank(0).Kernel("nccl", 10, 30, 7, 0);
    capture::Capture capture = t.Build();
    for (capture::ApiCall& c : capture.ranks[0].api_calls) c.name = capture.strings.Intern(call);
    const bool counts = std::string_view(call).starts_with("cuLaunch");
    EXPECT_EQ(StreamQueuesOf(capture, DeviceRule::kHta).size(), counts ? 1u : 0u) << call;
    EXPECT_TRUE(LaunchStatsOf(capture, LaunchRanks::kTogether, DeviceRule::kHta).empty()) << call;
  }
}

TEST(StreamQueues, MeasuresTheTimeOfAFullQueue) {
  TimelineBuilder t;
  for (int i = 0; i < 1100; ++i) t.Rank(0).Kernel("k", 5000 + i, 1, 7, i);
  const auto queues = StreamQueuesOf(t.Build(), DeviceRule::kLockstep);
  EXPECT_EQ(queues[0].longest, 1100u);
  // The 1,024th launch is at 1,023 us. Fewer kernels wait after the start at 5,076 us.
  EXPECT_EQ(queues[0].full, Us(5076 - 1023));
}

TEST(CopyRates, RatesAreBytesOverCopyTimeAndConcurrentCopiesAddUp) {
  TimelineBuilder t;
  t.Rank(0)
      .Copy(1'000'000, 0, 100, 9, -1, 1)
      .Copy(1'000'000, 50, 100, 10, -1, 1)
      .Copy(2'000'000, 200, 50, 9, -1, 2)
      .Copy(0, 300, 5, 9, -1, 2);
  capture::Capture capture = t.Build();
  for (capture::DeviceActivity& a : capture.ranks[0].activities) a.name = kNoName;
  capture::Finish(capture);
  const auto rates = CopyRatesOf(capture, DeviceRule::kLockstep);
  ASSERT_EQ(rates.size(), 2u);
  for (const CopyRate& rate : rates) {
    if (capture.Text(rate.name).starts_with("Memcpy HtoD")) {
      EXPECT_EQ(rate.busy, Us(150));
      EXPECT_NEAR(rate.bytes_per_s.value_or(0), 2e6 / 150e-6, 1);
      EXPECT_NEAR(rate.peak_bytes_per_s.value_or(0), 2e10, 1);
      EXPECT_EQ(rate.unknown, 0u);
    } else {
      EXPECT_NEAR(rate.bytes_per_s.value_or(0), 4e10, 1);
      EXPECT_EQ(rate.unknown, 1u);
      EXPECT_EQ(rate.copies, 2u);
    }
  }
}

}  // namespace
}  // namespace lockstep::views
