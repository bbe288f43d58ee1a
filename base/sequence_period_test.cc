#include "base/sequence_period.h"

#include <string_view>
#include <vector>

#include "base/split_mix.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

// Repeats a period of letters, each with its gap in us, `times` times. Gaps vary by 5 %.
struct Sequence {
  std::vector<uint64_t> symbols;
  std::vector<Nanos> gaps;

  Sequence(std::string_view letters, const std::vector<int>& gaps_us, size_t times) {
    SplitMix random(7);
    for (size_t t = 0; t < times; ++t) {
      for (size_t i = 0; i < letters.size(); ++i) {
        symbols.push_back(static_cast<uint64_t>(letters[i]));
        const auto noise = static_cast<double>(random.Next() % 1000) * 1e-4 - 0.05;
        gaps.push_back(Nanos(static_cast<int64_t>(gaps_us[i] * 1000 * (1 + noise))));
      }
    }
  }
  size_t Period() const { return SequencePeriod(symbols, gaps); }
};

TEST(SequencePeriod, IsThatOfTheSymbols) {
  EXPECT_EQ(Sequence("aaab", {1, 1, 1, 1}, 10).Period(), 4u);
  EXPECT_EQ(Sequence("aabaabaac", {1, 1, 1, 1, 1, 1, 1, 1, 1}, 4).Period(), 9u);
}

TEST(SequencePeriod, GapsDecideBetweenEqualOperations) {
  EXPECT_EQ(Sequence("aaaa", {900, 50, 70, 60}, 10).Period(), 4u);
  EXPECT_EQ(Sequence("a", {900}, 40).Period(), 1u);
}

TEST(SequencePeriod, ToleratesChangedPlaces) {
  Sequence sequence("aabc", {500, 10, 20, 30}, 100);
  std::swap(sequence.symbols[42], sequence.symbols[43]);
  EXPECT_EQ(sequence.Period(), 4u);
}

TEST(SequencePeriod, NeedsThreePeriods) {
  EXPECT_EQ(Sequence("abcd", {1, 1, 1, 1}, 2).Period(), 0u);
  EXPECT_EQ(Sequence("abcd", {1, 1, 1, 1}, 3).Period(), 4u);
  EXPECT_EQ(SequencePeriod({}, {}), 0u);
}

TEST(SequencePeriod, IsZeroForARandomSequence) {
  SplitMix random(3);
  std::vector<uint64_t> symbols;
  for (int i = 0; i < 500; ++i) symbols.push_back(random.Next() % 5);
  EXPECT_EQ(SequencePeriod(symbols, std::vector<Nanos>(symbols.size(), Nanos(1))), 0u);
}

}  // namespace
}  // namespace lockstep
