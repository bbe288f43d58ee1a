#include "analysis/gains/fit_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "analysis/explain/diagnosis.h"
#include "analysis/gains/memory_need.h"
#include "analysis/replay/prepared.h"
#include "capture/model/disk_rows.h"
#include "capture/model/held_bytes.h"
#include "capture/model/row_limit.h"
#include "capture/model/timeline_builder_fixture.h"

namespace lockstep::analysis {
namespace {

using capture::TimelineBuilder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kJobRanks = 4, kJobSteps = 20, kKernelsPerStep = 50;

// Rank 2's kernels take twice as long. Each step ends with an all-reduce, for which its host waits.
capture::Capture SlowRank2(bool with_steps = true) {
  TimelineBuilder t;
  const uint32_t dp = t.Group("dp", {0, 1, 2, 3});
  constexpr double kStepUs = 3200;
  for (int rank = 0; rank < kJobRanks; ++rank) {
    const double length = rank == 2 ? 60 : 30;
    t.Rank(rank).Api("cudaMalloc", -50, 1);
    for (int step = 0; step < kJobSteps; ++step) {
      const double begin = kStepUs * step;
      double at = begin;
      if (with_steps) t.Rank(rank).Step(step, at, kStepUs);
      for (int k = 0; k < kKernelsPerStep; ++k, at += length)
        t.Rank(rank).Kernel("gemm", at + 20, length, 7, begin + 5 * k);
      const double last = begin + kKernelsPerStep * 60 + 20, launched = begin + 5 * kKernelsPerStep;
      t.Rank(rank).Communication({.group = dp, .sequence = step}, at + 20, last + 100 - at - 20, 15,
                                 launched);
      t.Rank(rank).StreamSynchronize(15, launched + 10, last + 105 - launched - 10);
    }
    t.Rank(rank).data().window = {TimelineBuilder::At(-100), TimelineBuilder::At(kStepUs * kJobSteps)};
  }
  return t.Build();
}

AnalysisSize SizeOf(const capture::Capture& capture) {
  const capture::HeldBytes held = capture::HeldBytesOf(capture);
  return {.rows = capture::CountAnalysedRows(capture), .held_bytes = held.rows + held.other};
}

// The limit at which about this part of the rows fits.
MemoryLimit LimitFor(const capture::Capture& capture, double part) {
  AnalysisSize size = SizeOf(capture);
  size.rows = static_cast<uint64_t>(part * static_cast<double>(size.rows));
  size.held_bytes = static_cast<uint64_t>(part * static_cast<double>(size.held_bytes));
  return {.bytes = BytesToAnalyze(size, 1)};
}

TEST(FitMemory, LeavesACaptureThatFits) {
  capture::Capture capture = SlowRank2();
  const uint64_t rows = capture::CountAnalysedRows(capture);
  EXPECT_EQ(FitIntoMemory({.bytes = uint64_t{1} << 40, .threads = 3}, capture)->threads, 3u);
  EXPECT_EQ(FitIntoMemory({.bytes = 0, .threads = 3}, capture)->threads, 3u) << "no limit";
  EXPECT_EQ(capture::CountAnalysedRows(capture), rows);
  EXPECT_THAT(capture.notes, IsEmpty());
}

TEST(FitMemory, UsesFewerThreadsBeforeItLeavesOutSteps) {
  capture::Capture capture = SlowRank2();
  MemoryLimit limit = {.bytes = BytesToAnalyze(SizeOf(capture), 2), .threads = 8};
  EXPECT_EQ(FitIntoMemory(limit, capture)->threads, 2u);
  limit.bytes = BytesToAnalyze(SizeOf(capture), 1);
  EXPECT_EQ(FitIntoMemory(limit, capture)->threads, 1u);
  EXPECT_THAT(capture.notes, IsEmpty());
}

TEST(FitMemory, KeepsTheLastWholeStepsAndTheirVerdict) {
  const capture::Capture all = SlowRank2();
  const Prepared whole(all, 1);
  ASSERT_EQ(whole.steps.count(), size_t{kJobSteps});
  const Diagnosis expected = Diagnose(whole.input());
  capture::Capture capture = SlowRank2();
  const MemoryLimit limit = LimitFor(capture, 0.5);
  EXPECT_EQ(FitIntoMemory(limit, capture)->threads, 1u);
  EXPECT_LE(BytesToAnalyze(SizeOf(capture), 1), limit.bytes);
  EXPECT_THAT(capture.notes,
              ElementsAre(AllOf(HasSubstr("only the last 9 of 20 whole steps"), HasSubstr("(--memory)"))));
  const Prepared part(capture, 1);
  ASSERT_EQ(part.steps.count(), 9u);
  EXPECT_EQ(part.steps.names.back(), whole.steps.names.back());
  const Diagnosis found = Diagnose(part.input());
  for (size_t k = 0; k < 9; ++k)
    EXPECT_EQ(found.step_durations[k], expected.step_durations[kJobSteps - 9 + k]);
  ASSERT_FALSE(found.findings.empty());
  EXPECT_EQ(found.findings[0].cause, expected.findings[0].cause);
  EXPECT_THAT(found.findings[0].rank_indices, ElementsAre(2u));
}

TEST(FitMemory, RefusesWithRowsNeedLimitAndRemedy) {
  capture::Capture capture = SlowRank2();
  MemoryLimit limit = {.bytes = uint64_t{1} << 20, .option = "--analysis-memory"};
  const auto refused = FitIntoMemory(limit, capture);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(refused.status().message()),
      AllOf(HasSubstr("8244 kernels, copies and calls"), HasSubstr("may use 1 MiB (--analysis-memory)"),
            HasSubstr("--steps"), HasSubstr("raise --analysis-memory")));
}

TEST(FitMemory, RefusesIfNotTwoStepsFit) {
  capture::Capture capture = SlowRank2();
  // The rows of the last step are most of all rows.
  capture::RankData& rank = capture.ranks[1];
  const capture::DeviceActivity last = rank.activities.back();
  rank.activities.insert(rank.activities.end(), 20'000, last);
  const auto refused = FitIntoMemory(LimitFor(capture, 0.5), capture);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("not even 2 of its 20 steps fit"));
}

TEST(FitMemory, MovesTablesToADiskBeforeItLeavesOutSteps) {
  capture::Capture capture = SlowRank2();
  MemoryLimit limit = LimitFor(capture, 0.7);
  limit.disk_folders = {testing::TempDir(), "/var/tmp", "."};
  // In some containers all folders are in memory.
  if (!capture::DiskRows::Create(limit.disk_folders).ok()) GTEST_SKIP() << "no folder is on a disk";
  const auto fit = FitIntoMemory(limit, capture);
  ASSERT_TRUE(fit.ok()) << fit.status();
  ASSERT_NE(fit->disk, nullptr);
  EXPECT_EQ(fit->note, "");
  EXPECT_THAT(capture.notes, IsEmpty());
  const Prepared part(capture, fit->threads, fit->disk.get());
  EXPECT_EQ(Diagnose(part.input()).step_durations.size(), size_t{kJobSteps});
}

TEST(FitMemory, RefusesRatherThanShortenAnOutputOfAllRows) {
  capture::Capture capture = SlowRank2();
  MemoryLimit limit = LimitFor(capture, 0.5);
  limit.may_shorten = MayShorten::kNo;
  EXPECT_THAT(std::string(FitIntoMemory(limit, capture).status().message()),
              HasSubstr("the output needs all rows"));
}

TEST(FitMemory, ReadingLeavesTheMemoryWhenOneThreadDoesNotFit) {
  const capture::Capture capture = SlowRank2();
  const AnalysisSize size = SizeOf(capture);
  const uint64_t one_thread = BytesToAnalyze(size, 1);
  EXPECT_TRUE(FitsWithoutDisk({.bytes = one_thread})(size.rows, size.held_bytes));
  EXPECT_FALSE(FitsWithoutDisk({.bytes = one_thread - 1})(size.rows, size.held_bytes));
  EXPECT_FALSE(FitsWithoutDisk({.bytes = one_thread, .other_bytes = 1})(size.rows, size.held_bytes));
  EXPECT_FALSE(FitsWithoutDisk({.bytes = one_thread, .with_copy = true})(size.rows, size.held_bytes));
  EXPECT_TRUE(FitsWithoutDisk({.bytes = 0})(size.rows, size.held_bytes)) << "no limit";
}

TEST(FitMemory, RowsWithoutAnAnalysisNeedLess) {
  capture::Capture capture = SlowRank2();
  MemoryLimit limit = {.bytes = BytesToHold(SizeOf(capture)), .may_shorten = MayShorten::kNo};
  EXPECT_FALSE(FitIntoMemory(limit, capture).ok());
  const auto fits = FitRowsIntoMemory(limit, capture);
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ(*fits, nullptr);
  limit.bytes -= 1;
  EXPECT_THAT(std::string(FitRowsIntoMemory(limit, capture).status().message()),
              HasSubstr("the output needs all rows"));
}

TEST(FitMemory, WritesSizesForPeople) {
  EXPECT_EQ(MemoryText(1), "1 MiB");
  EXPECT_EQ(MemoryText(uint64_t{512} << 20), "512 MiB");
  EXPECT_EQ(MemoryText(uint64_t{8} << 30), "8 GiB");
  EXPECT_EQ(MemoryText((uint64_t{14} << 30) / 10), "1.4 GiB");
}

}  // namespace
}  // namespace lockstep::analysis
