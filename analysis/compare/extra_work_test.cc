#include "analysis/compare/extra_work.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

constexpr size_t kExtraWorkSteps = 6;
constexpr uint64_t kProduct = 1, kAdd = 2, kRare = 3;

// The number of kernels of a signature that a rank runs in a step.
using Number = std::function<uint32_t(uint32_t rank, size_t step, uint64_t signature)>;

struct ExtraWorkJob {
  Graph graph;
  std::vector<uint64_t> signatures;
};

ExtraWorkJob JobOf(uint32_t ranks, const Number& number) {
  ExtraWorkJob job;
  job.graph.rank_begin.push_back(0);
  for (uint32_t r = 0; r < ranks; ++r) {
    for (size_t s = 0; s < kExtraWorkSteps; ++s) {
      for (uint64_t signature : {kProduct, kAdd, kRare}) {
        for (uint32_t n = number(r, s, signature); n > 0; --n) {
          job.graph.units.push_back(
              {r, static_cast<int32_t>(s), 0, capture::kNone, UnitKind::kKernel, false});
          job.signatures.push_back(signature);
        }
      }
    }
    job.graph.rank_begin.push_back(static_cast<uint32_t>(job.graph.units.size()));
  }
  return job;
}

ExtraWork ExtraWorkOf(const ExtraWorkJob& job, const Layout* layout = nullptr) {
  return ExtraWork(job.graph, job.signatures, kExtraWorkSteps, layout);
}

uint32_t Ordinary(uint64_t signature) { return signature == kProduct ? 8 : signature == kAdd ? 4 : 0; }

TEST(ExtraWork, CountsRunsBeyondTheUsualNumber) {
  const ExtraWorkJob job = JobOf(4, [](uint32_t r, size_t, uint64_t signature) {
    return Ordinary(signature) + (r == 2 && signature == kProduct ? 2 : 0);
  });
  const ExtraWork extra_work = ExtraWorkOf(job);
  EXPECT_EQ(extra_work.UsualOf(2, 3, kProduct), 8u);
  EXPECT_EQ(extra_work.UsualOf(2, 3, kAdd), std::nullopt) << "as many as the others";
  EXPECT_EQ(extra_work.UsualOf(1, 3, kProduct), std::nullopt);
}

TEST(ExtraWork, DecidesPerStep) {
  const ExtraWorkJob job = JobOf(4, [](uint32_t r, size_t s, uint64_t signature) {
    return Ordinary(signature) + (s == 4 && signature == kAdd ? 3 : 0) +
           (r == 2 && s < 2 && signature == kProduct ? 1 : 0);
  });
  const ExtraWork extra_work = ExtraWorkOf(job);
  EXPECT_EQ(extra_work.UsualOf(2, 1, kProduct), 8u);
  EXPECT_EQ(extra_work.UsualOf(2, 2, kProduct), std::nullopt);
  EXPECT_EQ(extra_work.UsualOf(2, 4, kAdd), std::nullopt) << "all run more in that step";
}

TEST(ExtraWork, IgnoresWorkInPlaceOfOtherWork) {
  const ExtraWorkJob job = JobOf(4, [](uint32_t r, size_t, uint64_t signature) {
    return Ordinary(signature) + (r == 2 && signature == kProduct ? 2u : 0u) -
           (r == 2 && signature == kAdd ? 2u : 0u);
  });
  EXPECT_TRUE(ExtraWorkOf(job).empty());
}

TEST(ExtraWork, IgnoresAKernelThatMovedToTheNextStep) {
  const ExtraWorkJob job = JobOf(4, [](uint32_t r, size_t s, uint64_t signature) {
    const bool moved = r == 2 && signature == kProduct;
    return Ordinary(signature) + (moved && s == 3 ? 1u : 0u) - (moved && s == 2 ? 1u : 0u);
  });
  EXPECT_TRUE(ExtraWorkOf(job).empty());
}

TEST(ExtraWork, IgnoresKernelsThatNoOtherRankRuns) {
  const ExtraWorkJob job = JobOf(4, [](uint32_t r, size_t, uint64_t signature) {
    return Ordinary(signature) + (r == 2 && signature == kRare ? 5 : 0);
  });
  EXPECT_TRUE(ExtraWorkOf(job).empty());
}

TEST(ExtraWork, NeedsPeersThatAgree) {
  const Number differs = [](uint32_t r, size_t, uint64_t signature) {
    return Ordinary(signature) + (signature == kProduct ? r : 0);
  };
  EXPECT_TRUE(ExtraWorkOf(JobOf(8, differs)).empty());
  const Number one = [](uint32_t r, size_t, uint64_t signature) {
    return Ordinary(signature) + (r == 1 && signature == kProduct ? 2 : 0);
  };
  EXPECT_TRUE(ExtraWorkOf(JobOf(2, one)).empty()) << "with two ranks, neither is the odd one";
}

TEST(ExtraWork, ComparesRanksOfAStage) {
  const ExtraWorkJob job = JobOf(8, [](uint32_t r, size_t, uint64_t signature) {
    return Ordinary(signature) + (r >= 4 && signature == kProduct ? 3 : 0) +
           (r == 6 && signature == kAdd ? 1 : 0);
  });
  Layout layout;
  layout.stages = 2;
  layout.stage_of = {0, 0, 0, 0, 1, 1, 1, 1};
  const ExtraWork extra_work = ExtraWorkOf(job, &layout);
  EXPECT_EQ(extra_work.UsualOf(6, 0, kAdd), 4u);
  EXPECT_EQ(extra_work.UsualOf(5, 0, kProduct), std::nullopt) << "its whole stage runs so many";
}

// Of many ranks, only some are sampled.
TEST(ExtraWork, FindsExtraWorkAmongHundredsOfRanks) {
  const ExtraWorkJob job = JobOf(300, [](uint32_t r, size_t, uint64_t signature) {
    return Ordinary(signature) + (r % 50 == 7 && signature == kProduct ? 1 + r / 50 : 0);
  });
  const ExtraWork extra_work = ExtraWorkOf(job);
  for (uint32_t r = 7; r < 300; r += 50) EXPECT_EQ(extra_work.UsualOf(r, 0, kProduct), 8u) << r;
}

}  // namespace
}  // namespace lockstep::analysis
