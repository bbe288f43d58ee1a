#include "analysis/compare/extra_work.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

constexpr size_t kSteps = 6;
constexpr uint64_t kProduct = 1, kAdd = 2, kRare = 3;

// How many kernels of a token a rank runs in a step.
using Number = std::function<uint32_t(uint32_t rank, size_t step, uint64_t token)>;

struct Job {
  Graph graph;
  std::vector<uint64_t> tokens;
};

Job JobOf(uint32_t ranks, const Number& number) {
  Job job;
  job.graph.rank_begin.push_back(0);
  for (uint32_t r = 0; r < ranks; ++r) {
    for (size_t s = 0; s < kSteps; ++s) {
      for (uint64_t token : {kProduct, kAdd, kRare}) {
        for (uint32_t n = number(r, s, token); n > 0; --n) {
          job.graph.units.push_back({r, static_cast<int32_t>(s), 0, store::kNone, UnitKind::kKernel, false});
          job.tokens.push_back(token);
        }
      }
    }
    job.graph.rank_begin.push_back(static_cast<uint32_t>(job.graph.units.size()));
  }
  return job;
}

Surplus SurplusOf(const Job& job, const Layout* layout = nullptr) {
  return Surplus(job.graph, job.tokens, kSteps, layout);
}

uint32_t Ordinary(uint64_t token) { return token == kProduct ? 8 : token == kAdd ? 4 : 0; }

TEST(Surplus, OfTheSameKernelsIsWhatGoesBeyondTheUsualNumber) {
  const Job job = JobOf(4, [](uint32_t r, size_t, uint64_t token) {
    return Ordinary(token) + (r == 2 && token == kProduct ? 2 : 0);
  });
  const Surplus surplus = SurplusOf(job);
  EXPECT_EQ(surplus.UsualOf(2, 3, kProduct), 8u);
  EXPECT_EQ(surplus.UsualOf(2, 3, kAdd), std::nullopt) << "as many as the others";
  EXPECT_EQ(surplus.UsualOf(1, 3, kProduct), std::nullopt);
}

TEST(Surplus, IsStepByStep) {
  const Job job = JobOf(4, [](uint32_t r, size_t s, uint64_t token) {
    return Ordinary(token) + (s == 4 && token == kAdd ? 3 : 0) +
           (r == 2 && s < 2 && token == kProduct ? 1 : 0);
  });
  const Surplus surplus = SurplusOf(job);
  EXPECT_EQ(surplus.UsualOf(2, 1, kProduct), 8u);
  EXPECT_EQ(surplus.UsualOf(2, 2, kProduct), std::nullopt);
  EXPECT_EQ(surplus.UsualOf(2, 4, kAdd), std::nullopt) << "all run more in that step";
}

TEST(Surplus, IsNotWhatARankDoesInsteadOfSomethingElse) {
  const Job job = JobOf(4, [](uint32_t r, size_t, uint64_t token) {
    return Ordinary(token) + (r == 2 && token == kProduct ? 2u : 0u) - (r == 2 && token == kAdd ? 2u : 0u);
  });
  EXPECT_TRUE(SurplusOf(job).empty());
}

TEST(Surplus, IsNotAKernelThatFellIntoTheNextStep) {
  const Job job = JobOf(4, [](uint32_t r, size_t s, uint64_t token) {
    const bool moved = r == 2 && token == kProduct;
    return Ordinary(token) + (moved && s == 3 ? 1u : 0u) - (moved && s == 2 ? 1u : 0u);
  });
  EXPECT_TRUE(SurplusOf(job).empty());
}

TEST(Surplus, IsNotClaimedOfKernelsThatNobodyElseRuns) {
  const Job job = JobOf(4, [](uint32_t r, size_t, uint64_t token) {
    return Ordinary(token) + (r == 2 && token == kRare ? 5 : 0);
  });
  EXPECT_TRUE(SurplusOf(job).empty());
}

TEST(Surplus, NeedsPeersThatAgree) {
  const Number differs = [](uint32_t r, size_t, uint64_t token) {
    return Ordinary(token) + (token == kProduct ? r : 0);
  };
  EXPECT_TRUE(SurplusOf(JobOf(8, differs)).empty());
  const Number one = [](uint32_t r, size_t, uint64_t token) {
    return Ordinary(token) + (r == 1 && token == kProduct ? 2 : 0);
  };
  EXPECT_TRUE(SurplusOf(JobOf(2, one)).empty()) << "of two nobody knows which is the odd one";
}

TEST(Surplus, IsAmongTheRanksOfAStage) {
  const Job job = JobOf(8, [](uint32_t r, size_t, uint64_t token) {
    return Ordinary(token) + (r >= 4 && token == kProduct ? 3 : 0) + (r == 6 && token == kAdd ? 1 : 0);
  });
  Layout layout;
  layout.stages = 2;
  layout.stage_of = {0, 0, 0, 0, 1, 1, 1, 1};
  const Surplus surplus = SurplusOf(job, &layout);
  EXPECT_EQ(surplus.UsualOf(6, 0, kAdd), 4u);
  EXPECT_EQ(surplus.UsualOf(5, 0, kProduct), std::nullopt) << "its whole stage runs so many";
}

// Of many ranks only some are asked.
TEST(Surplus, IsFoundAmongHundreds) {
  const Job job = JobOf(300, [](uint32_t r, size_t, uint64_t token) {
    return Ordinary(token) + (r % 50 == 7 && token == kProduct ? 1 + r / 50 : 0);
  });
  const Surplus surplus = SurplusOf(job);
  for (uint32_t r = 7; r < 300; r += 50) EXPECT_EQ(surplus.UsualOf(r, 0, kProduct), 8u) << r;
}

}  // namespace
}  // namespace lockstep::analysis
