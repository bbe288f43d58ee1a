#include "client/record/tick_clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "base/read_clock.h"

namespace lockstep::client {
namespace {

constexpr int64_t kMostErrorNs = 200'000;  // of a busy machine

TEST(TickClockTest, ConvertsTheCounterToTheHostsClock) {
  TickClock clock;
  const uint64_t before = ReadTicks();
  EXPECT_EQ(clock.ToHost(before), before) << "it is not active yet";
  clock.Begin(kSystemTiming);
  for (int i = 0; i < 5; ++i) {
    const int64_t real = ReadClockNs(CLOCK_REALTIME);
    const uint64_t ticks = ReadTicks();
    EXPECT_LT(std::abs(static_cast<int64_t>(clock.ToHost(ticks)) - real), kMostErrorNs);
    kSystemTiming.pause(Nanos::Millis(20));
    clock.Refresh();
    EXPECT_LT(std::abs(static_cast<int64_t>(clock.ToHost(ticks)) - real), kMostErrorNs)
        << "also in hindsight";
  }
  EXPECT_LT(clock.error().ns(), kMostErrorNs);
  clock.End();
  EXPECT_EQ(clock.ToHost(before), before);
}

TEST(TickClockTest, LeavesStampsOfTheHostsClockAndZero) {
  TickClock clock;
  clock.Begin(kSystemTiming);
  const auto real = static_cast<uint64_t>(ReadClockNs(CLOCK_REALTIME));
  for (const uint64_t stamp : {uint64_t{0}, real, real - 2'000'000'000, real + 2'000'000'000})
    EXPECT_EQ(clock.ToHost(stamp), stamp);
}

TEST(TickClockTest, OtherThreadsConvertWhileItMeasures) {
  TickClock clock;
  clock.Begin(kSystemTiming);
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop.load()) {
      const int64_t real = ReadClockNs(CLOCK_REALTIME);
      EXPECT_LT(std::abs(static_cast<int64_t>(clock.ToHost(ReadTicks())) - real), 50'000'000);
    }
  });
  for (int i = 0; i < 200; ++i) clock.Refresh();
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace lockstep::client
