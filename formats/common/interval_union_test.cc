#include "formats/common/interval_union.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace lockstep::formats {
namespace {

HostTime At(int64_t ns) { return HostTime(ns); }

Nanos Covered(const std::vector<HostInterval>& parts) {
  Nanos sum;
  for (const HostInterval& part : parts) sum += part.end - part.start;
  return sum;
}

TEST(IntervalUnion, MergesTouchingIntervalsInAnyOrder) {
  IntervalUnion all;
  for (const int start : {30, 10, 0, 12, 50, 40}) all.Add(At(start), At(start + 10));
  all.Add(At(100), At(100));
  EXPECT_EQ(all.Take(), (std::vector<HostInterval>{{At(0), At(22)}, {At(30), At(60)}}));
  EXPECT_EQ(all.closed_gap(), Nanos());
}

// Adds intervals of 100 ns, with gaps of 1 ns and 1 us in turn.
void AddStretches(int64_t count, IntervalUnion& to) {
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    to.Add(At(at), At(at + 100));
    at += 100 + (i % 2 == 0 ? 1 : 1000);
  }
}

TEST(IntervalUnion, ClosesTheNarrowestGapsBeyondTheBoundAndReportsTheirWidth) {
  IntervalUnion bounded(1000);
  AddStretches(1400, bounded);
  EXPECT_EQ(bounded.closed_gap(), Nanos(1));
  EXPECT_EQ(DescribeClosedGaps(bounded, IntervalUnion()),
            " has too many separate CPU operators: gaps of up to 1 ns between them count "
            "as operators");
  const auto kept = bounded.Take();
  EXPECT_EQ(kept.size(), 500u + 400u);
  EXPECT_EQ(Covered(kept), Nanos(1400 * 100 + 500));
}

TEST(IntervalUnion, AMillionIntervalsStayWithinTheBound) {
  IntervalUnion bounded(1000), exact;
  AddStretches(1'000'000, bounded);
  AddStretches(1'000'000, exact);
  EXPECT_EQ(exact.closed_gap(), Nanos());
  EXPECT_EQ(DescribeClosedGaps(IntervalUnion(), exact), "");
  EXPECT_EQ(bounded.closed_gap(), Nanos(1000)) << "narrow pauses are not enough";
  const auto kept = bounded.Take(), all = exact.Take();
  EXPECT_EQ(all.size(), 1'000'000u);
  EXPECT_LE(kept.size(), 1000u);
  EXPECT_EQ(kept.front().start, all.front().start);
  EXPECT_EQ(kept.back().end, all.back().end);
}

TEST(IntervalUnion, AcceptsExtremeStamps) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  IntervalUnion all(4);
  for (int round = 0; round < 3; ++round) {
    for (const int64_t at : {kLeast, kMost - 1, int64_t{0}, kLeast + 10, kMost - 30})
      all.Add(At(at), At(at + 1));
  }
  all.Add(At(kLeast), At(kMost));
  EXPECT_EQ(all.Take(), (std::vector<HostInterval>{{At(kLeast), At(kMost)}}));
}

}  // namespace
}  // namespace lockstep::formats
