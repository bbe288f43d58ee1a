#include "analysis/time/efficiency.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "capture/model/capture.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

std::vector<Nanos> Drawn(std::mt19937& random, size_t ranks) {
  std::vector<Nanos> lengths;
  for (size_t r = 0; r < ranks; ++r)
    lengths.push_back(Nanos(1'000'000 + static_cast<int64_t>(random() % 500'000)));
  return lengths;
}

Layout Blocks(uint32_t stages, uint32_t replicas, uint32_t shards) {
  Layout layout{.stages = stages};
  for (uint32_t r = 0; r < std::max(1u, stages) * replicas * shards; ++r) {
    layout.stage_of.push_back(stages > 0 ? static_cast<int32_t>(r / (replicas * shards)) : -1);
    layout.tensor_group_of.push_back(shards > 1 ? r / shards : capture::kNone);
    layout.data_group_of.push_back(capture::kNone);
  }
  return layout;
}

TEST(Efficiency, FactorsMultiplyToTheEfficiency) {
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    const std::vector<Nanos> compute = Drawn(random, 8);
    std::vector<Nanos> active = compute;
    for (Nanos& n : active) n = n + Nanos(static_cast<int64_t>(random() % 300'000));
    const Efficiency e = EfficiencyOf(compute, active, Nanos(2'000'000));
    EXPECT_NEAR(*e.parallel, *e.load_balance * *e.communication * *e.orchestration, 1e-12);
    double sum = 0;
    for (Nanos n : compute) sum += static_cast<double>(n.ns());
    EXPECT_NEAR(*e.parallel, sum / 8 / 2'000'000, 1e-12);
  }
}

TEST(Efficiency, EfficiencyOfAnEmptyCaptureIsUnknown) {
  const std::vector<Nanos> none = {Nanos(), Nanos()};
  EXPECT_FALSE(EfficiencyOf(none, none, Nanos(100)).parallel.has_value());
  EXPECT_FALSE(EfficiencyOf({}, {}, Nanos(100)).parallel.has_value());
}

TEST(LoadBalance, FactorsMultiplyToTheLoadBalanceInEveryLayout) {
  std::mt19937 random(2);
  for (const Layout& layout :
       {Blocks(4, 2, 2), Blocks(0, 4, 4), Blocks(2, 8, 1), Blocks(0, 16, 1), Blocks(8, 1, 2)}) {
    const std::vector<Nanos> compute = Drawn(random, layout.stage_of.size());
    const LoadBalance split = SplitLoadBalance(compute, layout);
    const double whole = *EfficiencyOf(compute, compute, Nanos(5'000'000)).load_balance;
    EXPECT_NEAR(split.stage.value_or(1) * split.data.value_or(1) * split.tensor.value_or(1), whole, 1e-12);
    EXPECT_EQ(split.stage.has_value(), layout.stages > 0);
    EXPECT_EQ(split.tensor.has_value(), layout.tensor_group_of[0] != capture::kNone);
  }
}

TEST(LoadBalance, EachFactorIsTheMeanOverTheLargestMean) {
  std::mt19937 random(6);
  constexpr uint32_t kShapes[][3] = {{4, 2, 2}, {0, 4, 4}, {2, 8, 1}, {0, 16, 1}, {8, 1, 2}, {2, 2, 4}};
  for (const auto& [stages, replicas, shards] : kShapes) {
    const uint32_t of_stage = replicas * shards, count = std::max(1u, stages) * of_stage;
    const std::vector<Nanos> compute = Drawn(random, count);
    const auto mean = [&](uint32_t first, uint32_t ranks) {
      double sum = 0;
      for (uint32_t r = first; r < first + ranks; ++r) sum += static_cast<double>(compute[r].ns());
      return sum / ranks;
    };
    const auto most = [&](uint32_t ranks) {
      double largest = 0;
      for (uint32_t first = 0; first < count; first += ranks) largest = std::max(largest, mean(first, ranks));
      return largest;
    };
    const LoadBalance split = SplitLoadBalance(compute, Blocks(stages, replicas, shards));
    EXPECT_NEAR(split.stage.value_or(1), stages > 0 ? mean(0, count) / most(of_stage) : 1, 1e-12);
    EXPECT_NEAR(split.data.value(), most(of_stage) / most(shards), 1e-12);
    EXPECT_NEAR(split.tensor.value_or(1), most(shards) / most(1), 1e-12);
  }
}

TEST(LoadBalance, ImbalanceOfADimensionLowersItsFactor) {
  const auto compute = [](const Layout& layout, auto heavy) {
    std::vector<Nanos> lengths;
    for (uint32_t r = 0; r < layout.stage_of.size(); ++r) lengths.push_back(Nanos(heavy(r) ? 1'500 : 1'000));
    return lengths;
  };
  const Layout layout = Blocks(4, 2, 2);
  const LoadBalance stage = SplitLoadBalance(compute(layout, [](uint32_t r) { return r >= 12; }), layout);
  EXPECT_LT(*stage.stage, 0.8);
  EXPECT_DOUBLE_EQ(*stage.data, 1);
  EXPECT_DOUBLE_EQ(*stage.tensor, 1);
  // Only one replica of every stage computes.
  const LoadBalance data = SplitLoadBalance(compute(layout, [](uint32_t r) { return r % 4 < 2; }), layout);
  EXPECT_DOUBLE_EQ(*data.stage, 1);
  EXPECT_LT(*data.data, 0.9);
  EXPECT_DOUBLE_EQ(*data.tensor, 1);
  const LoadBalance tensor = SplitLoadBalance(compute(layout, [](uint32_t r) { return r % 2 == 0; }), layout);
  EXPECT_DOUBLE_EQ(*tensor.stage, 1);
  EXPECT_DOUBLE_EQ(*tensor.data, 1);
  EXPECT_LT(*tensor.tensor, 0.9);
}

}  // namespace
}  // namespace lockstep::analysis
