#include "capture/align/offset_region.h"

#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace lockstep::capture {
namespace {

HostTime AtNs(int64_t ns) { return HostTime(1'700'000'000'000'000'000 + ns); }

TEST(OffsetRegion, NeverExcludesATruthThatSatisfiesItsConstraints) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int trial = 0; trial < 500; ++trial) {
    const double offset = unit(random) * 1e7, drift = unit(random) * 1e-4;
    OffsetRegion region(AtNs(0), 2e-4);
    const int n = 1 + static_cast<int>(random() % 40);
    for (int i = 0; i < n; ++i) {
      const auto x = static_cast<int64_t>(unit(random) * 5e9);
      const double truth = offset + drift * static_cast<double>(x);
      if (random() % 2 == 0)
        region.AddUpper(AtNs(x), Nanos(static_cast<int64_t>(truth + 1 + std::fabs(unit(random)) * 1e6)));
      else
        region.AddLower(AtNs(x), Nanos(static_cast<int64_t>(truth - 1 - std::fabs(unit(random)) * 1e6)));
    }
    ASSERT_TRUE(region.Solve());
    for (const int64_t x :
         {int64_t{-5'000'000'000}, int64_t{0}, int64_t{123'456'789}, int64_t{5'000'000'000}}) {
      const OffsetRegion::Range range = region.At(AtNs(x));
      const double truth = offset + drift * static_cast<double>(x);
      EXPECT_LE(range.low_ns, truth + 1);
      EXPECT_GE(range.high_ns, truth - 1);
    }
  }
}

TEST(OffsetRegion, IsAsTightAsTheBestLineThroughItsConstraints) {
  std::mt19937_64 random(8);
  for (int trial = 0; trial < 50; ++trial) {
    OffsetRegion region(AtNs(0), 1e-4);
    struct Limit {
      double x, y;
      bool upper;
    };
    std::vector<Limit> limits;
    for (int i = 0; i < 12; ++i) {
      const double x = static_cast<double>(random() % 2'000'000'000) - 1e9;
      const bool upper = i % 2 == 0;
      const double y = (upper ? 1.0 : -1.0) * (10'000 + static_cast<double>(random() % 500'000));
      limits.push_back({x, y, upper});
      upper ? region.AddUpper(AtNs(static_cast<int64_t>(x)), Nanos(static_cast<int64_t>(y)))
            : region.AddLower(AtNs(static_cast<int64_t>(x)), Nanos(static_cast<int64_t>(y)));
    }
    ASSERT_TRUE(region.Solve());
    // Finds the highest line at the origin over a grid of drifts.
    double highest = -INFINITY;
    for (double drift = -1e-4; drift <= 1e-4; drift += 1e-7) {
      double high = INFINITY, low = -INFINITY;
      for (const Limit& l : limits)
        (l.upper ? high = std::min(high, l.y - drift * l.x) : low = std::max(low, l.y - drift * l.x));
      if (high >= low) highest = std::max(highest, high);
    }
    const double found = region.At(AtNs(0)).high_ns;
    EXPECT_GE(found, highest - 1);
    EXPECT_LE(found, highest + 200);  // tolerance for the grid's step
  }
}

TEST(OffsetRegion, DetectsContradictionsThatSlackResolves) {
  OffsetRegion region(AtNs(0), 1e-4);
  region.AddUpper(AtNs(0), Nanos(0));
  region.AddLower(AtNs(0), Nanos(1000));
  EXPECT_FALSE(region.Solve());
  EXPECT_TRUE(region.Solve(Nanos(600)));
}

TEST(OffsetRegion, LimitsOnOneSideLeaveTheOtherOpen) {
  OffsetRegion region(AtNs(0), 1e-4);
  region.AddUpper(AtNs(0), Nanos(1000));
  ASSERT_TRUE(region.Solve());
  EXPECT_EQ(region.At(AtNs(0)).high_ns, 1000);
  EXPECT_TRUE(std::isinf(region.At(AtNs(0)).low_ns));
}

TEST(OffsetRegion, ClipMovesALineIntoTheRegion) {
  OffsetRegion region(AtNs(0), 1e-4);
  for (int64_t x : {-1'000'000'000, 1'000'000'000}) {
    region.AddUpper(AtNs(x), Nanos(5000));
    region.AddLower(AtNs(x), Nanos(-5000));
  }
  ASSERT_TRUE(region.Solve());
  const OffsetLine inside = region.Clip({1000, 1e-6});
  EXPECT_DOUBLE_EQ(inside.offset_ns, 1000);
  EXPECT_DOUBLE_EQ(inside.drift, 1e-6);
  const OffsetLine moved = region.Clip({90'000, 3e-4});
  EXPECT_LE(moved.offset_ns + moved.drift * 1e9, 5000 + 1);
  EXPECT_GE(moved.offset_ns - moved.drift * 1e9, -5000 - 1);
}

}  // namespace
}  // namespace lockstep::capture
