#include "report/report.h"

#include <random>

#include "capture/model/timeline_builder_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scenario/generator.h"
#include "sim/engine/dry_run.h"
#include "tests/support/report_check.h"
#include "tests/support/sim_capture.h"
#include "tests/support/step_capture.h"

namespace lockstep::report {
namespace {

using capture::TimelineBuilder;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using tests::CheckedJson;
using tests::ExpectConsistent;

capture::Capture Simulated(sim::FaultKind kind, uint32_t rank, double size, Nanos window) {
  const scenario::Scenario scenario = *scenario::MakeTransformer({});
  sim::ModelSettings settings;
  settings.seed = 11;
  const auto healthy = sim::DryRun(scenario, settings, 28);
  EXPECT_TRUE(sim::SizeFault(scenario, kind, rank, size, sim::MeanStep(scenario, healthy), &settings.fault));
  tests::SimCaptureOptions options;
  options.from = VirtualTime(420'000'000);
  options.to = options.from + window;
  return tests::CaptureOf(scenario, sim::DryRun(scenario, settings, 28), options);
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST(Report, TheFirstLineNamesAFaultWithCauseGainAndVerdict) {
  const Report report = Analyze(Simulated(sim::FaultKind::kSlowGpu, 5, 0.2, Nanos::Seconds(2))).report;
  CheckedJson(report);
  ExpectConsistent(report);
  const std::string text = RenderText(report, {.width = 160});
  EXPECT_THAT(FirstLine(text),
              StartsWith("STRAGGLER rank 5 (node0 GPU 5): slow GPU, sure. Fixing it gains "));
  EXPECT_THAT(Lines(text)[1], StartsWith("PAGE now: the hardware team (host node0)"));
  EXPECT_THAT(Lines(text)[2], HasSubstr("SLOWDOWN"));
  ASSERT_FALSE(report.stragglers.empty());
  EXPECT_EQ(report.stragglers[0].kind, "rank");
  EXPECT_GT(report.stragglers[0].delayed_ranks, 0u);
  EXPECT_FALSE(report.stragglers[0].evidence.empty());
  EXPECT_THAT(report.not_the_cause, testing::Contains(HasSubstr("network")));
}

TEST(Report, ReportsWaitingRanksCausersAndPaths) {
  const Report report = Analyze(Simulated(sim::FaultKind::kSlowGpu, 5, 0.2, Nanos::Seconds(2))).report;
  ASSERT_TRUE(report.waiting.has_value());
  ASSERT_FALSE(report.waiting->causers.empty());
  const WaitingCauserRow& first = report.waiting->causers[0];
  EXPECT_EQ(first.rank, RankId(5));
  EXPECT_EQ(first.victims, 7u);
  EXPECT_GT(first.direct_ns_per_step + first.passed_on_ns_per_step, 0.7 * report.waiting->waited_ns_per_step);
  EXPECT_THAT(first.path, StartsWith("rank 5's kernels -> "));
  EXPECT_THAT(first.path, HasSubstr("all"));
  EXPECT_THAT(RenderText(report, {.width = 400}), HasSubstr("WAITING 7 ranks waited for rank 5: mean "));
}

TEST(Report, TheFirstLineNamesTwoEqualStragglersWithTheirGain) {
  tests::StepCaptureShape shape;
  shape.data_parallel = 8, shape.tensor_parallel = 1, shape.pipeline_parallel = 1, shape.steps = 6;
  shape.slow_ranks = {2, 6};
  shape.slow_factor = 1.2;
  const Report report = Analyze(tests::StepCapture(shape)).report;
  ExpectConsistent(report);
  ASSERT_EQ(report.stragglers.size(), 2u);
  EXPECT_THAT(FirstLine(RenderText(report, {.width = 400})),
              HasSubstr("rank 2 (n0 GPU 2) and rank 6 (n0 GPU 6): slow GPU, sure"));
}

TEST(Report, BytesAreIndependentOfTheNumberOfThreads) {
  tests::StepCaptureShape shape;
  shape.data_parallel = 6, shape.tensor_parallel = 4, shape.pipeline_parallel = 4, shape.steps = 4;
  shape.slow_ranks = {0};
  shape.slow_factor = 1.2;
  std::vector<capture::Capture> captures;
  captures.push_back(Simulated(sim::FaultKind::kCopy, 3, 0.2, Nanos::Seconds(1)));
  captures.push_back(tests::StepCapture(shape));
  for (const capture::Capture& capture : captures) {
    const Report one = Analyze(capture, {.threads = 1}).report;
    const std::string bytes = CheckedJson(one);
    ExpectConsistent(one);
    for (const unsigned threads : {2u, 5u}) {
      const Report other = Analyze(capture, {.threads = threads}).report;
      EXPECT_EQ(CheckedJson(other), bytes) << threads << " threads";
      EXPECT_EQ(RenderText(other), RenderText(one)) << threads << " threads";
    }
  }
}

TEST(Report, ReportsAHealthyJobAsHealthy) {
  const Report report = Analyze(Simulated(sim::FaultKind::kNone, 0, 0, Nanos::Seconds(2))).report;
  CheckedJson(report);
  ExpectConsistent(report);
  EXPECT_TRUE(report.stragglers.empty());
  EXPECT_THAT(RenderText(report), StartsWith("HEALTHY no rank holds the others back by more than"));
}

TEST(Report, TooFewStepsGiveWhatToCaptureAndNoSureVerdict) {
  const Report report = Analyze(Simulated(sim::FaultKind::kHostStall, 2, 0.3, Nanos::Millis(300))).report;
  CheckedJson(report);
  ASSERT_LT(report.capture.steps, 3u);
  EXPECT_FALSE(report.slowdown.noise_floor_ns_per_step.has_value());
  for (const StragglerRow& s : report.stragglers) EXPECT_EQ(s.verdict, "undecided");
  EXPECT_THAT(FirstLine(RenderText(report, {.width = 200})),
              testing::AllOf(StartsWith("TOO FEW STEPS"), HasSubstr("a verdict needs 3.")));
  EXPECT_THAT(report.recommendations[0], StartsWith("capture again, at least 3 whole steps"));
}

TEST(Report, LatenessCountsFromTheStepsAndNotFromTheWindow) {
  TimelineBuilder t;
  const uint32_t g = t.Group("world", {0, 1});
  // The window opens at 0, in the middle of step 0. Rank 0's next record comes late, rank 1's at once.
  t.Rank(0)
      .Kernel("tail", 900, 50)
      .Step(1, 1000, 900)
      .Kernel("k", 1100, 100, 7, 1010)
      .AllReduce(g, 1200, 500);
  t.Rank(1).Kernel("tail", 10, 50).Step(1, 1400, 500).Kernel("k", 1500, 100, 7, 1410).AllReduce(g, 1600, 100);
  capture::Capture capture = t.Build();
  capture.live = true;
  const Report report = Analyze(capture).report;
  CheckedJson(report);
  ASSERT_EQ(report.capture.steps, 1u);
  EXPECT_EQ(report.ranks[0].late_from_before, Nanos());
  EXPECT_EQ(report.ranks[1].late_from_before, Nanos::Micros(400));
  EXPECT_THAT(RenderText(report, {.width = 200}),
              HasSubstr("LATE rank 1 came 400 us late from before the window, cause unknown"));
}

TEST(Report, LatenessIsNullForALiveWindowWithoutSteps) {
  TimelineBuilder t;
  const uint32_t g = t.Group("world", {0, 1});
  t.Rank(0).Kernel("k", 0, 100).AllReduce(g, 100, 500);
  t.Rank(1).Kernel("k", 400, 100).AllReduce(g, 500, 100);
  capture::Capture capture = t.Build();
  const Report import = Analyze(capture).report;
  EXPECT_EQ(import.ranks[1].late_from_before, Nanos::Micros(400));
  capture.live = true;
  const Report live = Analyze(capture).report;
  CheckedJson(live);
  EXPECT_FALSE(live.ranks[0].late_from_before || live.ranks[1].late_from_before);
  EXPECT_THAT(RenderText(live, {.width = 200}), Not(HasSubstr("LATE")));
}

TEST(Report, OutputIsDeterministic) {
  const capture::Capture capture = Simulated(sim::FaultKind::kCopy, 3, 0.1, Nanos::Seconds(1));
  EXPECT_EQ(CheckedJson(Analyze(capture).report), CheckedJson(Analyze(capture).report));
}

TEST(Report, AnEmptyCaptureGivesAReport) {
  const Report report = Analyze(capture::Capture{}).report;
  CheckedJson(report);
  EXPECT_THAT(RenderText(report), StartsWith("NO STRAGGLER FOUND; nothing was recorded"));
}

TEST(Report, ReportsEmptyAndMissingRanks) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 10);
  t.Rank(1);
  capture::Capture capture = t.Build();
  capture.missing_ranks = {RankId(2), RankId(3)};
  capture.world_size = 4;
  const Report report = Analyze(capture).report;
  CheckedJson(report);
  EXPECT_TRUE(report.capture.partial);
  EXPECT_EQ(report.ranks[1].span, Nanos());
  EXPECT_THAT(RenderText(report), HasSubstr("MISSING ranks 2, 3"));
}

TEST(Report, AnIncompleteRankMakesTheCapturePartial) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 10);
  capture::Capture capture = t.Build();
  EXPECT_FALSE(Analyze(capture).report.capture.partial);
  capture.incomplete = {{.rank = RankId(0),
                         .reason = "its process ended",
                         .asked = Nanos::Seconds(2),
                         .recorded = Nanos::Millis(300)}};
  const Report report = Analyze(capture).report;
  CheckedJson(report);
  EXPECT_TRUE(report.capture.partial);
  EXPECT_TRUE(report.capture.missing_ranks.empty());
  ASSERT_EQ(report.capture.incomplete.size(), 1u);
  EXPECT_EQ(report.capture.incomplete[0].reason, "its process ended");
  EXPECT_EQ(report.capture.incomplete[0].recorded, Nanos::Millis(300));
  EXPECT_TRUE(Analyze(capture, {.communication_pattern = "k"}).report.capture.partial)
      << "a user's own rule for communication keeps it";
}

TEST(Report, ReportsLossesBesideTheAffectedNumbers) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 10);
  t.Rank(0).data().losses.push_back(
      {.stage = "ring", .kind = "kernel", .records = 512, .reason = "ring full"});
  const Report report = Analyze(t.Build()).report;
  CheckedJson(report);
  ASSERT_EQ(report.capture.losses.size(), 1u);
  EXPECT_EQ(report.capture.losses[0].records, 512u);
  EXPECT_THAT(RenderText(report), HasSubstr("LOST 512 records (at: ring)"));
}

TEST(Report, UnmatchedCommunicationMakesAVerdictUndecided) {
  TimelineBuilder t;
  const uint32_t g = t.Group("world", {0, 1});
  for (int r = 0; r < 2; ++r) {
    for (int k = 0; k < 8; ++k) {
      t.Rank(r).Step(k, 100.0 * k, 100).Kernel("k", 100.0 * k + 10, 20, 7, 100.0 * k + 5);
      t.Rank(r).Communication(
          {.group = g, .source = capture::MatchSource::kGroupSequence, .sequence = 100 * r + k},
          100.0 * k + 40, 30);
    }
  }
  const Report report = Analyze(t.Build()).report;
  CheckedJson(report);
  EXPECT_EQ(report.capture.matching.matched_fraction, 0.0);
  EXPECT_THAT(FirstLine(RenderText(report, {.width = 400})),
              testing::AllOf(StartsWith("SLOW JOB: late launches."),
                             HasSubstr("ranks could not be compared: 0% of the communication")));
  EXPECT_FALSE(report.ranks[0].wait.has_value());
}

TEST(Report, AMissingRankGivesBounds) {
  TimelineBuilder t;
  const uint32_t g = t.Group("world", {0, 1, 2});
  for (int r = 0; r < 2; ++r) {
    for (int k = 0; k < 8; ++k) {
      // Rank 1 comes 20 us after rank 0. In every second step, a rank without records comes 40 us after both.
      const double unseen = k % 2 == 0 ? 40 : 0;
      t.Rank(r)
          .Step(k, 200.0 * k, 200)
          .Kernel("k", 200.0 * k + 10, 20, 7, 200.0 * k + 5)
          .AllReduce(g, 200.0 * k + 40 + 20 * r, 50 - 20 * r + unseen);
    }
  }
  capture::Capture capture = t.Build();
  capture.missing_ranks = {RankId(2)};
  const Report report = Analyze(capture).report;
  CheckedJson(report);
  EXPECT_EQ(report.capture.matching.matched_fraction, 1.0);
  EXPECT_EQ(report.capture.matching.partial, 8u);
  EXPECT_FALSE(report.ranks[0].wait.has_value()) << "an instance without a member is not split";
  const std::string text = RenderText(report, {.width = 300});
  EXPECT_THAT(text, StartsWith("PARTIAL SLOW JOB: late launches."));
  EXPECT_THAT(text, HasSubstr("8 collectives lack ranks or records: what the others waited for each other is "
                              "the least it can be, and they waited for the "
                              "missing at most 17.1 us per step"));
}

TEST(Report, AUserRuleMakesKernelsCommunication) {
  TimelineBuilder t;
  t.Rank(0).Kernel("my_fancy_exchange<float>", 0, 30).Kernel("gemm", 40, 10);
  const capture::Capture capture = t.Build();
  EXPECT_EQ(Analyze(capture).report.ranks[0].communication, Nanos());
  const Report with_rule = Analyze(capture, {.communication_pattern = "fancy_.*change"}).report;
  CheckedJson(with_rule);
  EXPECT_EQ(with_rule.ranks[0].communication, Nanos::Micros(30));
  EXPECT_EQ(with_rule.ranks[0].compute, Nanos::Micros(10));
}

TEST(Report, ReportsAndIgnoresAnInvalidExpression) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 30);
  const Report report = Analyze(t.Build(), {.communication_pattern = "(["}).report;
  CheckedJson(report);
  EXPECT_THAT(report.capture.notes, testing::Contains(HasSubstr("is not a regular expression")));
}

TEST(Report, EscapesHostileNames) {
  TimelineBuilder t;
  const uint32_t g = t.Group("\x1b[31m\xff\n\"", {0, 1});
  for (int r = 0; r < 2; ++r)
    t.Rank(r, "host\x1b]0;owned\x07").Kernel("\xc3\x28", 0, 10).AllReduce(g, 20.0 + r, 10.0 - r);
  capture::Capture capture = t.Build();
  capture.job = "\x1b[2J job";
  capture.notes.push_back("note \r\n\x9b");
  const Report report = Analyze(capture).report;
  CheckedJson(report);
  const std::string text = RenderText(report, {.color = false});
  for (char c : text) EXPECT_TRUE(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F));
}

TEST(Report, LinesFitTheWidthAndColourIsOptional) {
  const Report report = Analyze(Simulated(sim::FaultKind::kSlowLink, 1, 0.2, Nanos::Seconds(2))).report;
  for (const int width : {60, 80, 100, 200}) {
    const std::string text = RenderText(report, {.width = width});
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    for (const std::string& line : Lines(text)) EXPECT_LE(line.size(), static_cast<size_t>(width)) << line;
  }
  EXPECT_THAT(RenderText(report, {.color = true}), HasSubstr("\x1b[1;31mSTRAGGLER\x1b[0m"));
}

TEST(Report, AcceptsInvalidWidths) {
  const Report report = Analyze(Simulated(sim::FaultKind::kNone, 1, 0, Nanos::Millis(500))).report;
  for (const int width : {-5, 0, 1, 100000})
    EXPECT_FALSE(RenderText(report, {.width = width, .top = -3}).empty());
}

TEST(Report, InvariantsHoldForRandomRecords) {
  std::mt19937 random(99);
  for (int trial = 0; trial < 60; ++trial) {
    TimelineBuilder t;
    const uint32_t a = t.Group("a", {0, 1});
    const uint32_t b = t.Group("b", {0, 1, 2, 3});
    for (int r = 0; r < 4; ++r) {
      capture::RankTimeline& rank = t.Rank(r, random() % 2 ? "x" : "y");
      double now = static_cast<double>(random() % 100);
      for (int i = 0; i < 40; ++i) {
        now += static_cast<double>(random() % 30);
        const double length = static_cast<double>(random() % 40) - 2;
        const double launch = random() % 3 == 0 ? -1 : now - static_cast<double>(random() % 50) + 5;
        const auto op = static_cast<capture::CollectiveOp>(random() % 14);
        switch (random() % 7) {
          case 0:
            rank.Communication({.op = op,
                                .group = random() % 2 ? a : b,
                                .bytes = static_cast<int64_t>(random() % 100) - 1,
                                .root = static_cast<int32_t>(random() % 6) - 1,
                                .peer = static_cast<int32_t>(random() % 6) - 1},
                               now, length);
            break;
          case 1:
            rank.Communication({.op = op,
                                .group = b,
                                .source = capture::MatchSource::kNcclSequence,
                                .sequence = static_cast<int64_t>(random() % 30)},
                               now, length);
            break;
          case 2:
            rank.Copy(random() % 100, now, length, 9, launch);
            break;
          case 3:
            rank.StreamSynchronize(random() % 20, now, length);
            break;
          case 4:
            rank.Step(static_cast<int>(random() % 8), now, length * 5);
            break;
          case 5:
            rank.Range("DataLoader", now, length);
            break;
          default:
            rank.Kernel("k", now, length, random() % 3, launch);
        }
      }
    }
    const Report report = Analyze(t.Build()).report;
    CheckedJson(report);
    ExpectConsistent(report);
    RenderText(report);
  }
}

}  // namespace
}  // namespace lockstep::report
