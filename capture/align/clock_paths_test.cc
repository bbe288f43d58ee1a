#include "capture/align/clock_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace lockstep::capture {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ClockPaths, EachSideUsesTheTightestChain) {
  // c leads a by -100 to 100 directly, by at most 9 over b, and by at least -3 over d.
  const std::vector<LeadRange> ranges = {
      {0, 2, -100, 100}, {0, 1, -50, 8}, {1, 2, -50, 1}, {0, 3, -2, 70}, {3, 2, -1, 70}};
  const auto found = ChainRanges(4, 0, ranges);
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)[2].low_ns, -3);
  EXPECT_EQ((*found)[2].high_ns, 9);
  EXPECT_EQ((*found)[0].high_ns, 0);
}

TEST(ClockPaths, NodesWithoutEdgesAreUnlimitedOnThatSide) {
  const auto found = ChainRanges(3, 0, std::vector<LeadRange>{{1, 0, -kInfinity, 5}});
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)[1].low_ns, -5);
  EXPECT_EQ((*found)[1].high_ns, kInfinity);
  EXPECT_EQ((*found)[2].low_ns, -kInfinity);
  EXPECT_EQ((*found)[2].high_ns, kInfinity);
}

TEST(ClockPaths, LeadsAroundACycleThatExcludeZeroContradict) {
  EXPECT_FALSE(ChainRanges(3, 0, std::vector<LeadRange>{{0, 1, 4, 6}, {1, 2, 4, 6}, {2, 0, -7, 6}}));
  EXPECT_TRUE(ChainRanges(3, 0, std::vector<LeadRange>{{0, 1, 4, 6}, {1, 2, 4, 6}, {2, 0, -9, 6}}));
}

// Follows every simple path of a small job, by brute force.
void Walk(const std::vector<LeadRange>& ranges, uint32_t node, double low, double high,
          std::vector<uint8_t>& on_path, std::vector<NodeRange>& best) {
  best[node].low_ns = std::max(best[node].low_ns, low);
  best[node].high_ns = std::min(best[node].high_ns, high);
  on_path[node] = 1;
  for (const LeadRange& r : ranges) {
    if (r.from == node && !on_path[r.to]) Walk(ranges, r.to, low + r.low_ns, high + r.high_ns, on_path, best);
    if (r.to == node && !on_path[r.from])
      Walk(ranges, r.from, low - r.high_ns, high - r.low_ns, on_path, best);
  }
  on_path[node] = 0;
}

TEST(ClockPaths, LimitsEqualThoseOfAllPathsAndContainTheTruth) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> lead(-1000, 1000), width(0, 300);
  for (int run = 0; run < 200; ++run) {
    constexpr uint32_t kNodes = 6;
    std::vector<double> truth(kNodes);
    for (double& t : truth) t = lead(random);
    std::vector<LeadRange> ranges;
    for (int k = 0; k < 9; ++k) {
      const auto a = static_cast<uint32_t>(random() % kNodes), b = static_cast<uint32_t>(random() % kNodes);
      if (a == b) continue;
      const double is = truth[b] - truth[a];
      ranges.push_back({a, b, random() % 5 == 0 ? -kInfinity : is - width(random),
                        random() % 5 == 0 ? kInfinity : is + width(random)});
    }
    const auto found = ChainRanges(kNodes, 0, ranges);
    ASSERT_TRUE(found);
    std::vector<NodeRange> best(kNodes);
    std::vector<uint8_t> on_path(kNodes, 0);
    Walk(ranges, 0, 0, 0, on_path, best);
    for (uint32_t n = 0; n < kNodes; ++n) {
      EXPECT_TRUE((*found)[n].low_ns == best[n].low_ns ||
                  std::fabs((*found)[n].low_ns - best[n].low_ns) < 1e-6);
      EXPECT_TRUE((*found)[n].high_ns == best[n].high_ns ||
                  std::fabs((*found)[n].high_ns - best[n].high_ns) < 1e-6);
      EXPECT_LE((*found)[n].low_ns, truth[n] - truth[0] + 1e-6);
      EXPECT_GE((*found)[n].high_ns, truth[n] - truth[0] - 1e-6);
    }
  }
}

}  // namespace
}  // namespace lockstep::capture
