#include "aggregator/live/sample.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "report/written_job_fixture.h"

namespace lockstep::aggregator {
namespace {

TEST(Sample, EqualsTheReport) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const report::WrittenJob job = report::WriteJob(seed);
    const report::Analysis analysis = report::Analyze(job.capture);
    const report::Report& report = analysis.report;
    const Summary summary = Summarize(job.capture, analysis);
    const v1::Sample& sample = summary.sample;
    ASSERT_EQ(static_cast<size_t>(sample.ranks_size()), report.ranks.size());
    for (size_t i = 0; i < report.ranks.size(); ++i) {
      const v1::SampleRank& rank = sample.ranks(static_cast<int>(i));
      EXPECT_EQ(rank.rank(), report.ranks[i].rank.value());
      EXPECT_EQ(rank.span_ns(), report.ranks[i].span.ns());
      EXPECT_EQ(rank.idle_ns(), report.ranks[i].idle.ns());
      double self = 0;
      for (const report::StepRow& step : report.steps) self += static_cast<double>(step.ranks[i].self.ns());
      EXPECT_NEAR(rank.self_ns_per_step(), self / static_cast<double>(report.steps.size()), 1);
    }
    EXPECT_EQ(sample.verdict(), report::VerdictSentence(report));
    EXPECT_EQ(sample.has_step_ns(), report.slowdown.step_ns.has_value());
    EXPECT_EQ(sample.steps(), report.capture.steps);
    EXPECT_EQ(sample.last_step(), report.steps.back().step);
    EXPECT_EQ(summary.steps.whole, report.capture.steps);
    EXPECT_LE(sample.groups_size(), 16);
    for (int i = 1; i < sample.groups_size(); ++i)
      EXPECT_GE(sample.groups(i - 1).skew_p99_ns(), sample.groups(i).skew_p99_ns());
  }
}

TEST(Sample, TheLastStepBeginsWhereItsFirstRankDoes) {
  const report::WrittenJob job = report::WriteJob(2);
  const Summary summary = Summarize(job.capture, report::Analyze(job.capture));
  int64_t first = INT64_MAX;
  for (const report::WrittenRank& rank : job.ranks) first = std::min(first, rank.steps.back().start * 1000);
  // Number of the first step and time zero of the generated job.
  constexpr int64_t kFirstStep = 100, kZero = 1'700'000'000'000'000'000;
  EXPECT_EQ(summary.sample.last_step(), kFirstStep + job.steps - 1);
  EXPECT_EQ(summary.sample.last_step_begin_unix_ns(), kZero + first);
}

TEST(Sample, LossesAreSummedByStageAndByRank) {
  report::WrittenJob job = report::WriteJob(1);
  job.capture.ranks[0].losses = {{"ring", "kernel", 3, "the ring was full", {}, {}},
                                 {"ring", "memcpy", 4, "the ring was full", {}, {}}};
  job.capture.ranks[1].losses = {{"cupti", "", 5, "CUPTI dropped them", {}, {}}};
  const v1::Sample sample = Summarize(job.capture, report::Analyze(job.capture)).sample;
  ASSERT_EQ(sample.losses_size(), 2);
  EXPECT_EQ(sample.losses(0).stage(), "cupti");
  EXPECT_EQ(sample.losses(0).records(), 5u);
  EXPECT_EQ(sample.losses(1).records(), 7u);
  EXPECT_EQ(sample.ranks(0).lost_records(), 7u);
  EXPECT_EQ(sample.ranks(1).lost_records(), 5u);
}

TEST(Sample, AFolderWithoutACaptureIsAnError) { EXPECT_FALSE(ReadSample("/nowhere", 1).ok()); }

}  // namespace
}  // namespace lockstep::aggregator
