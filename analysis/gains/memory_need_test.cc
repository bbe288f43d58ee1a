#include "analysis/gains/memory_need.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace lockstep::analysis {
namespace {

using testing::Eq;
using testing::Optional;

constexpr uint64_t kMiB = uint64_t{1} << 20;

AnalysisSize Million() { return {.rows = 1'000'000, .held_bytes = 40'000'000}; }

TEST(MemoryNeed, GrowsWithRowsThreadsAndThePage) {
  AnalysisSize twice = Million(), page = Million();
  twice.rows *= 2;
  page.with_page = true;
  EXPECT_GT(BytesToAnalyze(twice, 1), BytesToAnalyze(Million(), 1));
  EXPECT_GT(BytesToAnalyze(Million(), 2), BytesToAnalyze(Million(), 1));
  EXPECT_GT(BytesToAnalyze(page, 1), BytesToAnalyze(Million(), 1));
  AnalysisSize on_disk = Million();
  on_disk.on_disk = true;
  EXPECT_LT(BytesToAnalyze(on_disk, 1), BytesToAnalyze(Million(), 1));
  EXPECT_LT(BytesToFindSteps(Million()), BytesToAnalyze(Million(), 1));
}

TEST(MemoryNeed, UsesAsManyThreadsAsFit) {
  EXPECT_THAT(ThreadsThatFit(Million(), 8, 1024 * kMiB), Optional(8u));
  EXPECT_THAT(ThreadsThatFit(Million(), 8, BytesToAnalyze(Million(), 3)), Optional(3u));
  EXPECT_THAT(ThreadsThatFit(Million(), 8, BytesToAnalyze(Million(), 3) - 1), Optional(2u));
  EXPECT_THAT(ThreadsThatFit(Million(), 8, BytesToAnalyze(Million(), 1)), Optional(1u));
  EXPECT_THAT(ThreadsThatFit(Million(), 8, BytesToAnalyze(Million(), 1) - 1), Eq(std::nullopt));
}

TEST(MemoryNeed, KeepsTheLastStepsThatFitAndALeadIn) {
  const std::vector<uint64_t> rows(100, 10'000);
  // Room for some 20 steps, of which one is the lead-in.
  const AnalysisSize part = {.rows = 200'000, .held_bytes = 8'000'000};
  EXPECT_EQ(StepsThatFit(Million(), rows, BytesToAnalyze(part, 1)), 19u);
  EXPECT_EQ(StepsThatFit(Million(), rows, BytesToAnalyze(part, 1) - 1), 18u);
}

TEST(MemoryNeed, ALargeLastStepLeavesNoRoom) {
  std::vector<uint64_t> rows(100, 1);
  rows.back() = 1'000'000;
  EXPECT_EQ(StepsThatFit(Million(), rows, 100 * kMiB), 0u);
  EXPECT_EQ(StepsThatFit(Million(), {}, 100 * kMiB), 0u);
}

TEST(MemoryNeed, NeverKeepsAllSteps) {
  const std::vector<uint64_t> rows(10, 1);
  EXPECT_EQ(StepsThatFit(Million(), rows, 1024 * kMiB), 9u);
}

}  // namespace
}  // namespace lockstep::analysis
