#include "report/recommendations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report/first_line.h"

namespace lockstep::report {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

constexpr double kStepMs = 1e6;

// A job of two ranks with steps of 100 ms.
Report TwoRanks() {
  Report r;
  r.ranks = {{.rank = RankId(0)}, {.rank = RankId(1)}};
  r.capture.steps = 10;
  for (int k = 0; k < 10; ++k) r.steps.push_back({.step = k});
  r.slowdown = {.step_ns = 100 * kStepMs,
                .ideal_step_ns = 80 * kStepMs,
                .lost_ns_per_step = 20 * kStepMs,
                .noise_floor_ns_per_step = 1 * kStepMs,
                .noise_ns_per_step = 0,
                .unlisted_ns_per_step = 0,
                .unexplained_ns_per_step = 0};
  return r;
}

StragglerRow WithAction(double lost_ms, const std::string& action, const std::string& verdict = "sure") {
  return {.kind = "rank",
          .ranks = {RankId(1)},
          .hosts = {"n1"},
          .cause = "gpu_clock",
          .lost_ns_per_step = lost_ms * kStepMs,
          .gain_ns_per_step = lost_ms * kStepMs,
          .verdict = verdict,
          .action = action};
}

// "DO x" or "TUNE x", as in the text.
std::vector<std::string> Actions(const Report& report) {
  std::vector<std::string> out;
  for (const Recommendation& r : MakeRecommendations(report))
    out.push_back((r.can_wait ? "TUNE " : "DO ") + r.text);
  return out;
}

TEST(Recommendations, OnlyWhatIsPagedForIsUrgent) {
  Report r = TwoRanks();
  r.stragglers = {WithAction(15, "first"), WithAction(4, "second"), WithAction(1, "third")};
  r.shared_losses = {{.kind = "exposed_transfer",
                      .lost_ns_per_step = 12 * kStepMs,
                      .share_of_step = 0.12,
                      .action = "overlap"}};
  EXPECT_THAT(Actions(r), ElementsAre("DO first", "DO second", "TUNE overlap", "TUNE third"));
}

TEST(Recommendations, ActionsThatOnlyHelpTogetherComeFirst) {
  Report r = TwoRanks();
  r.stragglers = {WithAction(6, "first"), WithAction(5.5, "beside it"), WithAction(5, "with it")};
  r.stragglers[0].gain_ns_per_step = 0.1 * kStepMs;
  r.fixes = {{.entries = {0, 2}, .gain_ns_per_step = 11 * kStepMs}};
  EXPECT_THAT(Actions(r), ElementsAre("DO first", "DO with it", "DO beside it"));
}

TEST(Recommendations, AHealthyJobHasTimeForAll) {
  Report r = TwoRanks();
  r.slowdown.lost_ns_per_step = 0;
  r.shared_losses = {{.kind = "pipeline_bubble",
                      .lost_ns_per_step = 20 * kStepMs,
                      .share_of_step = 0.2,
                      .action = "use more microbatches"}};
  ASSERT_EQ(MakeFirstLine(r).headline, Headline::kHealthy);
  EXPECT_THAT(Actions(r), ElementsAre("TUNE use more microbatches"));
}

TEST(Recommendations, AnUndecidedStragglerNeedsMoreSteps) {
  Report r = TwoRanks();
  r.slowdown.lost_ns_per_step = 4 * kStepMs;
  r.stragglers = {WithAction(4, "look at it", "undecided")};
  EXPECT_THAT(Actions(r),
              ElementsAre("DO capture about 40 steps: the interval of the gain is then half as wide",
                          "TUNE look at it"));
  r.capture.source = "live";
  EXPECT_THAT(Actions(r)[0], StartsWith("DO capture about 40 steps (lockstep trace --steps 40): "));
  r.stragglers[0].kind = "group";
  EXPECT_EQ(Actions(r)[0], "DO compare it with a capture of a time when the job was fast (lockstep diff)")
      << "more steps do not tell which of two ranks is slow";
}

TEST(Recommendations, TheRightCaptureComesFirst) {
  Report r = TwoRanks();
  r.not_judged = {{kEverything, "graphs were not recorded", "start the job otherwise"}};
  r.shared_losses = {{.kind = "host_launch",
                      .lost_ns_per_step = 50 * kStepMs,
                      .share_of_step = 0.5,
                      .action = "use graphs"}};
  EXPECT_THAT(Actions(r), ElementsAre("DO start the job otherwise", "TUNE use graphs"));
  r.capture.steps = 2;
  EXPECT_THAT(Actions(r)[0], StartsWith("DO capture again, at least 3 whole steps; "));
  // More steps would not show the kernels of such graphs.
  r.capture.graphs_not_visible = {{.rank = RankId(1), .launches = 9}};
  EXPECT_EQ(Actions(r)[0], "DO start the job otherwise");
}

}  // namespace
}  // namespace lockstep::report
