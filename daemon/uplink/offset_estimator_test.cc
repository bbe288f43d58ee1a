#include "daemon/uplink/offset_estimator.h"

#include <random>

#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

// A host whose clock is `offset` ahead of the aggregator's at time 0 and gains `ppm` parts per million.
struct World {
  Nanos offset;
  double ppm = 0;
  Nanos aggregator_step;
  Nanos host_step;

  static constexpr int64_t kEpoch = 1'790'000'000'000'000'000;

  HostTime Host(Nanos t) const {
    return HostTime(kEpoch + t.ns()) + offset + host_step +
           Nanos(static_cast<int64_t>(static_cast<double>(t.ns()) * ppm * 1e-6));
  }
  JobTime Job(Nanos t) const { return JobTime(kEpoch + t.ns()) + aggregator_step; }
  MonoTime Mono(Nanos t) const { return MonoTime(Nanos::Seconds(1000).ns() + t.ns()); }

  ClockExchange Exchange(Nanos t, Nanos there, Nanos back) const {
    return {Host(t), Job(t + there), Job(t + there), Host(t + there + back), Mono(t + there + back)};
  }
  Nanos TrueOffset(Nanos t) const { return Nanos(Host(t).ns() - Job(t).ns()); }
};

Nanos Error(const OffsetEstimator& e, const World& w, Nanos t) {
  const Nanos d = e.At(w.Mono(t)).offset - w.TrueOffset(t);
  return d < Nanos() ? -d : d;
}

TEST(OffsetEstimator, KnowsNothingBeforeTheFirstExchange) {
  const OffsetEstimate none = OffsetEstimator().At(MonoTime(5));
  EXPECT_FALSE(none.known);
  EXPECT_EQ(none.bound, Nanos::Max());
  EXPECT_EQ(none.ToHost(JobTime(7)), HostTime(7));
}

TEST(OffsetEstimator, FindsTheOffsetWithinHalfTheRoundTrip) {
  const World world{Nanos::Millis(10)};
  OffsetEstimator estimator;
  ASSERT_TRUE(estimator.Add(world.Exchange(Nanos(), Nanos::Micros(80), Nanos::Micros(20))));
  const OffsetEstimate got = estimator.At(world.Mono(Nanos::Micros(100)));
  ASSERT_TRUE(got.known);
  EXPECT_LE(Error(estimator, world, Nanos::Micros(100)), got.bound);
  EXPECT_LE(got.bound, Nanos::Micros(51));
  EXPECT_EQ(got.ToJob(got.ToHost(JobTime(World::kEpoch))), JobTime(World::kEpoch));
}

TEST(OffsetEstimator, PrefersTheExchangeThatWasNotDelayed) {
  const World world{Nanos::Millis(-3)};
  OffsetEstimator estimator;
  for (int i = 0; i < 20; ++i) {
    const bool quick = i == 7;
    const Nanos there = quick ? Nanos::Micros(20) : Nanos::Millis(4);
    ASSERT_TRUE(estimator.Add(world.Exchange(Nanos::Millis(50) * i, there, Nanos::Micros(20))));
  }
  EXPECT_LE(Error(estimator, world, Nanos::Seconds(1)), Nanos::Micros(21));
}

TEST(OffsetEstimator, TheBoundHoldsUnderDriftAndJitter) {
  std::mt19937_64 random(9);
  for (double ppm : {-100.0, -50.0, 50.0, 100.0}) {
    const World world{Nanos::Millis(10), ppm};
    OffsetEstimator estimator;
    for (int i = 0; i < 400; ++i) {
      const Nanos t = Nanos::Millis(50) * i;
      const auto delay = [&] { return Nanos(20'000 + static_cast<int64_t>(random() % 300'000)); };
      ASSERT_TRUE(estimator.Add(world.Exchange(t, delay(), delay())));
      const Nanos later = t + Nanos::Millis(static_cast<int64_t>(random() % 2000));
      EXPECT_LE(Error(estimator, world, later), estimator.At(world.Mono(later)).bound);
    }
    EXPECT_EQ(estimator.steps(), 0);
    EXPECT_LE(estimator.At(world.Mono(Nanos::Seconds(20))).bound, Nanos::Millis(1));
  }
}

TEST(OffsetEstimator, DiscardsSamplesWhenTheHostsClockIsSet) {
  World world{Nanos::Millis(1)};
  OffsetEstimator estimator;
  ASSERT_TRUE(estimator.Add(world.Exchange(Nanos(), Nanos::Micros(20), Nanos::Micros(20))));
  world.host_step = Nanos::Seconds(3600);
  // The first exchange after the step is slow, so the old sample has the smaller bound.
  ASSERT_TRUE(estimator.Add(world.Exchange(Nanos::Seconds(1), Nanos::Millis(5), Nanos::Millis(5))));
  EXPECT_EQ(estimator.steps(), 1);
  EXPECT_LE(Error(estimator, world, Nanos::Seconds(1)), Nanos::Millis(6));
}

TEST(OffsetEstimator, DiscardsSamplesWhenTheAggregatorsClockIsSet) {
  World world{Nanos::Millis(1)};
  OffsetEstimator estimator;
  ASSERT_TRUE(estimator.Add(world.Exchange(Nanos(), Nanos::Micros(20), Nanos::Micros(20))));
  world.aggregator_step = Nanos::Millis(-250);
  ASSERT_TRUE(estimator.Add(world.Exchange(Nanos::Seconds(1), Nanos::Micros(50), Nanos::Micros(50))));
  EXPECT_EQ(estimator.steps(), 1);
  EXPECT_LE(Error(estimator, world, Nanos::Seconds(1)), Nanos::Micros(101));
}

TEST(OffsetEstimator, RefusesImpossibleExchanges) {
  OffsetEstimator estimator;
  EXPECT_FALSE(estimator.Add({HostTime(10), JobTime(5), JobTime(5), HostTime(9), MonoTime(1)}));
  EXPECT_FALSE(estimator.Add({HostTime(10), JobTime(6), JobTime(5), HostTime(20), MonoTime(1)}));
  EXPECT_FALSE(estimator.Add({HostTime(10), JobTime(5), JobTime(50), HostTime(20), MonoTime(1)}));
  EXPECT_FALSE(estimator.Add({HostTime::Min(), JobTime(5), JobTime(5), HostTime::Max(), MonoTime(1)}));
  EXPECT_FALSE(estimator.Add({HostTime(10), JobTime::Min(), JobTime::Max(), HostTime(20), MonoTime(1)}));
  EXPECT_FALSE(estimator.At(MonoTime(2)).known);
}

TEST(OffsetEstimator, KeepsAGoodExchangeThroughABurstOfSlowOnes) {
  const World world{Nanos::Millis(2)};
  OffsetEstimator estimator;
  ASSERT_TRUE(estimator.Add(world.Exchange(Nanos(), Nanos::Micros(20), Nanos::Micros(20))));
  for (int i = 1; i < 500; ++i) {
    ASSERT_TRUE(estimator.Add(world.Exchange(Nanos::Millis(10) * i, Nanos::Millis(9), Nanos::Micros(100))));
  }
  EXPECT_LE(Error(estimator, world, Nanos::Seconds(5)), Nanos::Millis(2));
}

}  // namespace
}  // namespace lockstep::daemon
