#include "analysis/time/intervals.h"

#include <bitset>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

using Set = IntervalSet<HostTime>;
constexpr int kInstants = 64;
using Bits = std::bitset<kInstants>;

HostInterval Span(int64_t start, int64_t end) { return {HostTime(start), HostTime(end)}; }

Bits ToBits(const std::vector<HostInterval>& intervals) {
  Bits bits;
  for (const HostInterval& i : intervals) {
    for (int64_t t = i.start.ns(); t < i.end.ns(); ++t) bits.set(static_cast<size_t>(t));
  }
  return bits;
}

std::vector<HostInterval> RandomIntervals(std::mt19937& random) {
  std::vector<HostInterval> out(random() % 12);
  for (HostInterval& i : out) {
    const int64_t start = random() % kInstants;
    i = Span(start, std::min<int64_t>(kInstants, start + random() % 9));
  }
  return out;
}

void ExpectCanonical(const Set& set) {
  for (size_t i = 0; i < set.size(); ++i) {
    EXPECT_LT(set[i].start, set[i].end);
    if (i > 0) {
      EXPECT_LT(set[i - 1].end, set[i].start);
    }
  }
}

TEST(Intervals, AgreesWithCountingEveryInstantOfRandomSets) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 3000; ++trial) {
    const auto raw_a = RandomIntervals(random);
    const auto raw_b = RandomIntervals(random);
    const Set a = Normalize(raw_a);
    const Set b = Normalize(raw_b);
    const Bits bits_a = ToBits(raw_a);
    const Bits bits_b = ToBits(raw_b);
    for (const Set& set : {a, b, Union(a, b), Intersect(a, b), Subtract(a, b)}) ExpectCanonical(set);
    EXPECT_EQ(ToBits(a), bits_a);
    EXPECT_EQ(ToBits(Union(a, b)), bits_a | bits_b);
    EXPECT_EQ(ToBits(Intersect(a, b)), bits_a & bits_b);
    EXPECT_EQ(ToBits(Subtract(a, b)), bits_a & ~bits_b);
    EXPECT_EQ(static_cast<size_t>(Measure(a).ns()), bits_a.count());
    const int64_t from = random() % kInstants;
    const int64_t to = random() % kInstants;
    EXPECT_EQ(ToBits(Clip(a, Span(from, to))), bits_a & ToBits({Span(from, to)}));
  }
}

TEST(Intervals, MergesTouchingIntervals) {
  EXPECT_THAT(Normalize<HostTime>({Span(5, 7), Span(1, 5), Span(9, 9)}), testing::ElementsAre(Span(1, 7)));
}

TEST(Intervals, UnixTimesKeepNanoseconds) {
  const int64_t epoch = 1'694'128'201'421'058'123;
  const Set a = Normalize<HostTime>({Span(epoch, epoch + 3), Span(epoch + 2, epoch + 1001)});
  EXPECT_EQ(Measure(a), Nanos(1001));
  EXPECT_EQ(Measure(Subtract(a, Normalize<HostTime>({Span(epoch + 1, epoch + 2)}))), Nanos(1000));
}

TEST(Intervals, IgnoresReversedIntervals) {
  EXPECT_TRUE(Normalize<HostTime>({Span(5, 3), Span(4, 4)}).empty());
}

}  // namespace
}  // namespace lockstep::analysis
