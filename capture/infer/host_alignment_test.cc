#include "capture/infer/host_alignment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::capture {
namespace {

constexpr int kAlignedSteps = 6;
constexpr double kAheadNs = 7e6;  // the second host's clock
constexpr size_t kRanksOnHost = 4;

// Two hosts of two tensor pairs each. All kernels have one name and stream. Each pair runs its own
// operations. Once per step, all ranks run one together if `joint`. Returns the ends of those by rank, on
// true time.
std::vector<NamelessRank> TwoHosts(bool joint, std::vector<double>& joint_ends) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<NamelessRank> ranks(2 * kRanksOnHost);
  const auto add = [&](size_t r, double start, double end) {
    const double ahead = r < kRanksOnHost ? 0 : kAheadNs;
    ranks[r].host = r < kRanksOnHost ? 0 : 1;
    ranks[r].kernels.push_back({.start = HostTime(static_cast<int64_t>(1e9 + start + ahead)),
                                .end = HostTime(static_cast<int64_t>(1e9 + end + ahead)),
                                .stream = 20,
                                .signature = 1,
                                .message = false});
  };
  for (int step = 0; step < kAlignedSteps; ++step) {
    double last = 0;
    std::vector<double> came(ranks.size());
    for (size_t pair = 0; pair < ranks.size() / 2; ++pair) {
      double at = 40e6 * step;
      for (int i = 0; i < 24; ++i) {
        at += 800e3 + 400e3 * unit(random);
        const double second = at + 20e3 * unit(random), end = second + 45e3;
        add(2 * pair, at, end + 1e3 * unit(random));
        add(2 * pair + 1, second, end + 1e3 * unit(random));
      }
      at += 4e6 * unit(random);
      came[2 * pair] = at;
      came[2 * pair + 1] = at + 10e3;
      last = std::max(last, at + 10e3);
    }
    if (!joint) continue;
    joint_ends.push_back(last + 60e3);
    for (size_t r = 0; r < ranks.size(); ++r) add(r, came[r], last + 60e3 + 1e3 * unit(random));
  }
  return ranks;
}

// The hosts share no pair of channels whose kernels all end together.
TEST(HostAlignment, UsesOperationsOfAllRanksAmongThoseOfSmallerGroups) {
  std::vector<double> ends;
  const std::vector<NamelessRank> ranks = TwoHosts(true, ends);
  KernelPieces pieces = CutPieces(ranks);
  double first = INFINITY;
  for (const NamelessRank& r : ranks) first = std::min(first, static_cast<double>(r.kernels[0].start.ns()));
  EXPECT_TRUE(AlignHosts(ranks, pieces).empty());
  for (const KernelPiece& piece : pieces.list) {
    for (const double end : ends) {
      double nearest = INFINITY;
      for (const KernelInterval& k : piece.intervals)
        nearest = std::min(nearest, std::fabs(k.end_ns + first - 1e9 - end));
      EXPECT_LT(nearest, 5e3) << "rank " << piece.rank;
    }
  }
}

}  // namespace
}  // namespace lockstep::capture
