#include "capture/align/sequence_align.h"

#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::capture {
namespace {

using testing::Each;
using testing::ElementsAre;

// Collectives of a training step that repeats. Every step has the same signatures, and its length jitters.
std::vector<SequenceElement> Steps(int steps, int per_step, std::mt19937& random, Nanos jitter) {
  std::vector<SequenceElement> out;
  HostTime now(1'000'000'000'000);
  for (int s = 0; s < steps; ++s) {
    for (int c = 0; c < per_step; ++c) {
      now += Nanos::Millis(8) + Nanos(static_cast<int64_t>(random() % jitter.ns()));
      out.push_back({.signature = static_cast<uint64_t>(c % 3), .start = now - Nanos::Millis(2), .end = now});
    }
  }
  return out;
}

std::vector<SequenceElement> OnAnotherClock(std::vector<SequenceElement> in, Nanos offset,
                                            std::mt19937& random) {
  for (SequenceElement& e : in) {
    e.end += offset + Nanos(static_cast<int64_t>(random() % 1'000'000));
    e.start += offset;
  }
  return in;
}

TEST(AlignSequences, PairsEqualSequencesOneToOneForAnyClockOffset) {
  std::mt19937 random(1);
  const auto a = Steps(3, 4, random, Nanos::Millis(3));
  const auto b = OnAnotherClock(a, Nanos::Seconds(-4), random);
  const auto pairs = AlignSequences(a, b);
  for (size_t j = 0; j < b.size(); ++j) EXPECT_EQ(pairs[j], static_cast<int32_t>(j));
}

// Real traces have 27 against 29 and 56 against 58 collectives, because one window began later.
TEST(AlignSequences, PairsWindowsThatBeginAtDifferentTimes) {
  for (const int total : {29, 58}) {
    for (int missing_front = 0; missing_front <= 2; ++missing_front) {
      std::mt19937 random(static_cast<unsigned>(total + missing_front));
      auto a = Steps(total, 1, random, Nanos::Millis(12));
      for (auto& e : a) e.signature = 0;
      auto b = OnAnotherClock(a, Nanos::Millis(7), random);
      b.erase(b.begin(), b.begin() + missing_front);
      b.resize(static_cast<size_t>(total - 2));
      const auto pairs = AlignSequences(a, b);
      for (size_t j = 0; j < b.size(); ++j) EXPECT_EQ(pairs[j], static_cast<int32_t>(j) + missing_front);
    }
  }
}

TEST(AlignSequences, LostRecordsLeaveGapsWithoutShiftingOtherPairs) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    const auto a = Steps(40, 5, random, Nanos::Millis(9));
    auto b = OnAnotherClock(a, Nanos::Millis(-3), random);
    std::vector<int32_t> truth;
    std::vector<SequenceElement> kept;
    for (size_t j = 0; j < b.size(); ++j) {
      if (random() % 50 == 0) continue;
      truth.push_back(static_cast<int32_t>(j));
      kept.push_back(b[j]);
    }
    EXPECT_EQ(AlignSequences(a, kept), truth);
    // In the other direction, elements that the reference lost stay unpaired.
    const auto back = AlignSequences(kept, b);
    size_t at = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      const bool in_reference = at < truth.size() && truth[at] == static_cast<int32_t>(j);
      EXPECT_EQ(back[j], in_reference ? static_cast<int32_t>(at) : kUnpaired);
      at += in_reference ? 1 : 0;
    }
  }
}

// All elements have one clock and one name, so in the middle they all seem to lie one place further on.
TEST(AlignSequences, EqualLossesAtDifferentPlacesDoNotShiftPairs) {
  std::mt19937 random(5);
  for (const auto& [lost_by_a, lost_by_b] :
       {std::pair(std::set{20, 70}, std::set{120, 160}), std::pair(std::set{100, 120}, std::set{30, 80}),
        std::pair(std::set{60}, std::set{140})}) {
    std::vector<SequenceElement> a, b;
    std::vector<int32_t> truth;
    HostTime now(1'000'000'000'000);
    for (int i = 0; i < 190; ++i) {
      now += Nanos::Micros(i % 2 == 0 ? 320 : 600) + Nanos(static_cast<int64_t>(random() % 20'000));
      const Nanos exit(static_cast<int64_t>(random() % 8'000));
      if (!lost_by_b.contains(i))
        truth.push_back(lost_by_a.contains(i) ? kUnpaired : static_cast<int32_t>(a.size()));
      if (!lost_by_a.contains(i)) a.push_back({.signature = 1, .start = now - Nanos::Micros(70), .end = now});
      if (!lost_by_b.contains(i))
        b.push_back({.signature = 1, .start = now - Nanos::Micros(75), .end = now + exit});
    }
    ASSERT_EQ(a.size(), b.size());
    EXPECT_EQ(AlignSequences(a, b, Nanos()), truth) << *lost_by_a.begin();
  }
}

TEST(AlignSequences, PairsNothingWithoutACommonSignature) {
  const std::vector<SequenceElement> a = {{1, HostTime(0), HostTime(5)}, {1, HostTime(6), HostTime(9)}};
  const std::vector<SequenceElement> b = {{2, HostTime(0), HostTime(5)}};
  EXPECT_THAT(AlignSequences(a, b), ElementsAre(kUnpaired));
  EXPECT_TRUE(AlignSequences(a, {}).empty());
  EXPECT_THAT(AlignSequences({}, b), Each(kUnpaired));
}

TEST(AlignSequences, PairsNeverCross) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<SequenceElement> a(random() % 30), b(random() % 30);
    for (auto* s : {&a, &b}) {
      int64_t now = 0;
      for (auto& e : *s) {
        now += random() % 5'000'000;
        e = {random() % 3, HostTime(now), HostTime(now + 1000)};
      }
    }
    int32_t last = kUnpaired;
    const auto pairs = AlignSequences(a, b);
    ASSERT_EQ(pairs.size(), b.size());
    for (size_t j = 0; j < pairs.size(); ++j) {
      if (pairs[j] == kUnpaired) continue;
      EXPECT_GT(pairs[j], last);
      EXPECT_EQ(a[static_cast<size_t>(pairs[j])].signature, b[j].signature);
      last = pairs[j];
    }
  }
}

}  // namespace
}  // namespace lockstep::capture
