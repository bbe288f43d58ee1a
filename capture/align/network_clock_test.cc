#include "capture/align/network_clock.h"

#include <cstdlib>
#include <random>

#include "capture/align/true_clock_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::capture {
namespace {

TEST(NetworkClock, TheBoundCoversTheTruthAndShrinksToTheBestRoundTrip) {
  std::mt19937_64 random(31);
  for (int trial = 0; trial < 200; ++trial) {
    const TrueClock clock = DrawClocks(1, random)[0];
    const auto exchanges = Exchanges(clock, 60, 50'000, random);
    const HostInterval window{TimelineBuilder::At(clock.Local(0)),
                              TimelineBuilder::At(clock.Local(3'000'000))};
    const auto found = ClockFromNetwork(exchanges, window);
    ASSERT_TRUE(found.has_value());
    const ClockModel model({*found});
    for (const double at : {0.0, 1'500'000.0, 3'000'000.0}) {
      const Nanos error =
          model.ToJob(0, TimelineBuilder::At(clock.Local(at))) - JobTime(TimelineBuilder::At(at).ns());
      EXPECT_LE(std::llabs(error.ns()), found->bound.ns());
    }
    EXPECT_LT(found->bound, Nanos::Micros(150));
    EXPECT_FALSE(found->step_noticed);
  }
}

TEST(NetworkClock, ALateAnswerIsNotAStep) {
  std::mt19937_64 random(8);
  const TrueClock clock{10'000, 50e-6};
  auto exchanges = Exchanges(clock, 60, 50'000, random);
  for (size_t i = 0; i < exchanges.size(); i += 5) {
    exchanges[i].t4 += Nanos::Millis(16);
    exchanges[i].monotonic += Nanos::Millis(16);
  }
  const auto found = ClockFromNetwork(exchanges, {exchanges.front().t1, exchanges.back().t4});
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->step_noticed);
  EXPECT_LT(found->bound, Nanos::Micros(150));
}

TEST(NetworkClock, DetectsAStepOfRealtimeAndFitsTheLongerSide) {
  std::mt19937_64 random(5);
  auto exchanges = Exchanges({1000, 0}, 20, 100'000, random);
  auto after = Exchanges({51'000, 0}, 60, 100'000, random);
  for (auto& e : after) {
    const Nanos shift = Nanos::Micros(2'000'000);
    e.t1 += shift;
    e.t2 += shift;
    e.t3 += shift;
    e.t4 += shift;
    e.monotonic += shift;
  }
  exchanges.insert(exchanges.end(), after.begin(), after.end());
  const HostInterval later{TimelineBuilder::At(3'000'000), TimelineBuilder::At(7'000'000)};
  const auto found = ClockFromNetwork(exchanges, later);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->step_noticed);
  EXPECT_NEAR(static_cast<double>(found->offset.ns()), 51e6, 1e5);
  EXPECT_LT(found->bound, Nanos::Millis(1)) << "the step lies before the window";
  const HostInterval across{TimelineBuilder::At(1'000'000), TimelineBuilder::At(4'000'000)};
  EXPECT_GE(ClockFromNetwork(exchanges, across)->bound, Nanos::Millis(49));
}

TEST(NetworkClock, LeavesOutImpossibleExchanges) {
  std::mt19937_64 random(6);
  auto exchanges = Exchanges({1000, 0}, 20, 100'000, random);
  exchanges.push_back({HostTime(500), JobTime(900), JobTime(100), HostTime(0), MonoTime(1)});
  const auto found = ClockFromNetwork(exchanges, {TimelineBuilder::At(0), TimelineBuilder::At(2'000'000)});
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(static_cast<double>(found->offset.ns()), 1e6, 1e5);
  EXPECT_FALSE(ClockFromNetwork({}, {}).has_value());
}

}  // namespace
}  // namespace lockstep::capture
