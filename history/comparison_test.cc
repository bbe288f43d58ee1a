#include "history/comparison.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "history/history_fixture.h"
#include "history/job_list.h"
#include "history/output/history_text.h"

namespace lockstep::history {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

CaptureContext Context(const std::string& id, double step_ns, const std::string& cause) {
  CaptureContext context{.head = MakeCapture(id, "llama", 1, step_ns).head};
  context.labels = {{"commit", id}, {"queue", "long"}};
  if (!cause.empty()) {
    context.findings = {{.list = kStragglers,
                         .kind = "rank",
                         .cause = cause,
                         .lost_ns_per_step = 1e6,
                         .ranks = {{.rank = RankId(3), .host = "n"}}}};
  }
  return context;
}

TEST(ComparisonTest, FindingsAreNewGoneOrInBoth) {
  CaptureContext a = Context("a", 20e6, "gpu_clock"), b = Context("b", 25e6, "data_loader");
  const Finding shared{.list = kSharedLosses, .kind = "input", .lost_ns_per_step = 9e6};
  a.findings.push_back(shared);
  b.findings.push_back(shared);
  const Comparison comparison = Compare({.name = "a", .captures = {a}}, {.name = "b", .captures = {b}});
  ASSERT_THAT(comparison.findings, SizeIs(3));
  EXPECT_EQ(comparison.findings[0].finding.cause, "data_loader");
  EXPECT_EQ(comparison.findings[0].in_a, 0u);
  EXPECT_EQ(comparison.findings[1].finding.cause, "gpu_clock");
  EXPECT_EQ(comparison.findings[1].in_b, 0u);
  EXPECT_EQ(comparison.findings[2].finding.kind, "input");
  EXPECT_EQ(comparison.metrics[0].a, 20e6);
  EXPECT_EQ(comparison.metrics[0].b, 25e6);
  ASSERT_THAT(comparison.labels, SizeIs(1));
  EXPECT_EQ(comparison.labels[0].name, "commit");
  EXPECT_THAT(ComparisonText(comparison),
              AllOf(HasSubstr("+25.0%  worse"), HasSubstr("new      1.00 ms  rank 3 (n), data_loader"),
                    HasSubstr("gone     1.00 ms  rank 3 (n), gpu_clock"),
                    HasSubstr("in both  9.00 ms  input"), HasSubstr("commit a -> b")));
}

TEST(ComparisonTest, JobsAreComparedByMediansOfKnownValues) {
  std::vector<CaptureContext> captures;
  for (const double step_ms : {20, 21, 500}) captures.push_back(Context("x", step_ms * 1e6, "gpu_clock"));
  captures[1].head.lost_ns_per_step.reset();
  captures.push_back(Context("y", 22e6, ""));
  captures[3].head.step_ns.reset();
  const Comparison comparison =
      Compare({.name = "old", .captures = captures}, {.name = "y", .captures = {captures[3]}});
  EXPECT_EQ(comparison.metrics[0].a, 21e6);
  EXPECT_FALSE(comparison.metrics[0].b.has_value());
  ASSERT_THAT(comparison.findings, SizeIs(1));
  EXPECT_EQ(comparison.findings[0].in_a, 3u);
  EXPECT_THAT(ComparisonText(comparison),
              AllOf(HasSubstr("A: job old, medians of 4 captures"), HasSubstr("B: capture y"),
                    HasSubstr("in 3 of 4 captures of A")));
}

TEST(JobListTest, TheJobWithTheNewestCaptureIsFirst) {
  const std::vector<JobRow> rows =
      JobRows({MakeCapture("1", "old", 1).head, MakeCapture("2", "new", 2).head,
               MakeCapture("3", "old", 3).head, MakeCapture("4", "new", 4).head});
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].job, "new");
  EXPECT_EQ(rows[1].captures, 2u);
  EXPECT_EQ(rows[1].first, Day(1));
  EXPECT_EQ(rows[1].last.id, "3");
}

TEST(CaptureTextTest, ShowsFindingsRanksAndSteps) {
  EXPECT_THAT(
      CaptureText(MakeCapture("c1", "llama", 1)),
      AllOf(HasSubstr("capture c1\n  job llama (4711), 2023-11-15 22:13 UTC, 2 ranks on 2 hosts, 2 steps"),
            HasSubstr("not whole"), HasSubstr("3 records were lost"), HasSubstr("labels commit=abc"),
            HasSubstr("gain 1.00 ms  rank 1 (b), gpu_clock"), HasSubstr("12.5%")));
}

}  // namespace
}  // namespace lockstep::history
