#include "views/device/trace_diff.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "capture/align/clock_model.h"
#include "views/host/frames_fixture.h"

namespace lockstep::views {
namespace {

using capture::TimelineBuilder;

// A job with steps of 100 us, each with a gemm of `gemm_us` on every rank.
struct Job {
  int ranks = 1, steps = 3;
  double gemm_us = 20;
  std::string extra;  // name of a further kernel of 10 us in the first step
};

class Side {
 public:
  explicit Side(const Job& job, bool marked = true) {
    TimelineBuilder t;
    std::vector<int32_t> all;
    for (int r = 0; r < job.ranks; ++r) all.push_back(r);
    const uint32_t group = t.Group("dp", all);
    for (int r = 0; r < job.ranks; ++r) {
      auto& rank = t.Rank(r);
      for (int s = 0; s < job.steps; ++s) {
        if (marked) rank.Step(s + 7, 100.0 * s, 100);
        rank.Kernel("gemm", 100.0 * s + 10, job.gemm_us, 7, 100.0 * s + 5);
        rank.Communication({.op = capture::CollectiveOp::kAllReduce, .group = group}, 100.0 * s + 70, 5, 15,
                           100.0 * s + 6);
      }
      if (!job.extra.empty()) rank.Kernel(job.extra, 55, 10, 7, 50);
    }
    capture_ = t.Build();
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r)
      FramesBuilder(capture_).Frame("aten::mm", 2, 8).Frame("ProfilerStep#7", 0, 100).To(r);
    capture::Finish(capture_);
    std::vector<analysis::CallIndex> calls;
    for (const capture::RankData& rank : capture_.ranks) calls.emplace_back(rank);
    steps_ = analysis::FindSteps(capture_, capture::ClockModel(), calls);
  }
  DiffInput input() const { return {capture_, steps_}; }

 private:
  capture::Capture capture_;
  analysis::Steps steps_;
};

const DiffRow* Find(const TraceDiff& diff, std::string_view key) {
  const auto it =
      std::find_if(diff.rows.begin(), diff.rows.end(), [&](const DiffRow& r) { return r.key == key; });
  return it == diff.rows.end() ? nullptr : &*it;
}

TEST(TraceDiff, FiguresArePerStepAndRankIfBothHaveSteps) {
  const Side before({.ranks = 1, .steps = 3, .gemm_us = 20});
  // The last of more than three steps may be truncated, so it is not used.
  const Side after({.ranks = 2, .steps = 5, .gemm_us = 30});
  const TraceDiff diff = DiffOf(before.input(), after.input(), DiffKey::kKernel);
  EXPECT_TRUE(diff.per_step);
  EXPECT_EQ(diff.steps_before, 3u);
  EXPECT_EQ(diff.steps_after, 4u);
  const DiffRow* gemm = Find(diff, "gemm");
  ASSERT_NE(gemm, nullptr);
  EXPECT_EQ(gemm->before.count, 3u);
  EXPECT_EQ(gemm->after.count, 8u);
  EXPECT_EQ(gemm->before.total, Nanos::Micros(60));
  EXPECT_EQ(gemm->after.total, Nanos::Micros(240));
  EXPECT_EQ(gemm->difference, Nanos::Micros(10));
  EXPECT_EQ(gemm->change, Change::kUnchanged) << "once a step on each rank, in both";
  EXPECT_EQ(&diff.rows[0], gemm) << "the largest difference first";
}

TEST(TraceDiff, ReportsAddedAndDeletedItems) {
  const Side before({.extra = "old"});
  const Side after({.extra = "new"});
  const TraceDiff diff = DiffOf(before.input(), after.input(), DiffKey::kKernel);
  EXPECT_EQ(Find(diff, "old")->change, Change::kDeleted);
  EXPECT_EQ(Find(diff, "new")->change, Change::kAdded);
  EXPECT_EQ(Find(diff, "old")->difference, -(Nanos::Micros(10) / 3));
  const Side twice({.extra = "gemm"});
  EXPECT_EQ(Find(DiffOf(before.input(), twice.input(), DiffKey::kKernel), "gemm")->change,
            Change::kIncreased);
  EXPECT_EQ(Find(DiffOf(twice.input(), before.input(), DiffKey::kKernel), "gemm")->change,
            Change::kDecreased);
}

TEST(TraceDiff, ByCollectiveStepAndOperator) {
  const Side before({.ranks = 2});
  const Side after({.ranks = 2, .steps = 5});
  const TraceDiff collectives = DiffOf(before.input(), after.input(), DiffKey::kCollective);
  ASSERT_EQ(collectives.rows.size(), 1u);
  EXPECT_EQ(collectives.rows[0].key, "all_reduce of 2 ranks");
  EXPECT_EQ(collectives.rows[0].before.count, 6u);
  EXPECT_EQ(collectives.rows[0].difference, Nanos());
  const TraceDiff steps = DiffOf(before.input(), after.input(), DiffKey::kStep);
  ASSERT_EQ(steps.rows.size(), 4u);
  EXPECT_EQ(Find(steps, "step 3")->change, Change::kAdded);
  EXPECT_EQ(Find(steps, "step 0")->before.mean, Nanos::Micros(100));
  const TraceDiff operators = DiffOf(before.input(), after.input(), DiffKey::kOperator);
  EXPECT_EQ(Find(operators, "aten::mm")->before.total, Nanos::Micros(12));
  EXPECT_NE(Find(operators, "ProfilerStep"), nullptr);
}

TEST(TraceDiff, AnEmptyCaptureGivesNoRows) {
  TimelineBuilder t;
  t.Rank(0);
  capture::Capture empty = t.Build();
  capture::Finish(empty);
  const analysis::Steps none =
      analysis::FindSteps(empty, capture::ClockModel(), {analysis::CallIndex(empty.ranks[0])});
  const Side job({});
  const TraceDiff diff = DiffOf({empty, none}, job.input(), DiffKey::kKernel);
  EXPECT_FALSE(diff.per_step);
  EXPECT_EQ(Find(diff, "gemm")->change, Change::kAdded);
}

}  // namespace
}  // namespace lockstep::views
