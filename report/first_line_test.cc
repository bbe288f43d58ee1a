#include "report/first_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::report {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr double kMs = 1e6;

// A healthy job of 8 ranks with steps of 100 ms.
Report Healthy() {
  Report r;
  for (int i = 0; i < 8; ++i)
    r.ranks.push_back({.rank = RankId(i), .host = "n1", .device = static_cast<uint32_t>(i)});
  r.capture.steps = 10;
  r.slowdown.step_ns = 100 * kMs;
  r.slowdown.ideal_step_ns = 99 * kMs;
  r.slowdown.lost_ns_per_step = 1 * kMs;
  r.slowdown.noise_floor_ns_per_step = 1 * kMs;
  r.slowdown.noise_ns_per_step = 1 * kMs;
  r.slowdown.unlisted_ns_per_step = 0;
  r.slowdown.unexplained_ns_per_step = 0;
  return r;
}

// Loses `lost_ms` to rank 3, or to all ranks.
StragglerRow Slow(double lost_ms, const std::string& kind = "rank") {
  return {.kind = kind,
          .ranks = {RankId(3)},
          .hosts = {"n1"},
          .cause = "gpu_clock",
          .lost_ns_per_step = lost_ms * kMs,
          .gain_ns_per_step = lost_ms * kMs,
          .verdict = "sure"};
}

SharedLossRow Shared(const std::string& kind, double lost_ms) {
  return {.kind = kind, .lost_ns_per_step = lost_ms * kMs, .share_of_step = lost_ms / 100, .action = "act"};
}

std::string LineOf(const Report& report) { return MakeFirstLine(report).text; }

TEST(FirstLine, HealthyIfEverythingWasJudged) {
  Report r = Healthy();
  EXPECT_THAT(LineOf(r), StartsWith("HEALTHY no rank holds the others back by more than 1.00 ms per step"));
  EXPECT_EQ(MakeFirstLine(r).page, "nobody.");
  r.shared_losses = {Shared("exposed_transfer", 12)};
  EXPECT_THAT(LineOf(r), AllOf(StartsWith("HEALTHY"), HasSubstr("By design all ranks transfer data")));
}

TEST(FirstLine, SomethingThatWasNotJudgedIsNotHealthy) {
  Report r = Healthy();
  r.not_judged = {{"links between hosts", "one communicator", "a baseline"}};
  EXPECT_THAT(LineOf(r),
              AllOf(StartsWith("NO STRAGGLER FOUND"), HasSubstr("not judged: links between hosts")));
  EXPECT_EQ(
      MakeFirstLine(r).page,
      "nobody on this evidence: if the job was faster before, compare with a capture of that time (lockstep "
      "diff).");
}

TEST(FirstLine, AStragglerIsNamedWithItsTeam) {
  Report r = Healthy();
  r.slowdown.lost_ns_per_step = 11 * kMs;
  r.stragglers = {Slow(10)};
  const FirstLine line = MakeFirstLine(r);
  EXPECT_EQ(line.headline, Headline::kStraggler);
  EXPECT_EQ(line.text, "STRAGGLER rank 3 (n1 GPU 3): slow GPU, sure. Fixing it gains 10.0 ms (10%) per step");
  EXPECT_EQ(line.page, "now: the hardware team (host n1). Not the training owner.");
}

TEST(FirstLine, AHostWithoutANameIsThatOfItsRank) {
  Report r = Healthy();
  r.slowdown.lost_ns_per_step = 11 * kMs;
  r.stragglers = {Slow(10), Slow(10)};
  r.stragglers[0].hosts.clear();
  r.stragglers[1].ranks = {RankId(6)};
  r.stragglers[1].hosts = {"n2"};
  const FirstLine line = MakeFirstLine(r);
  EXPECT_THAT(line.text, StartsWith("STRAGGLER rank 3 (GPU 3): slow GPU, sure"));
  EXPECT_EQ(line.page,
            "now: the hardware team (host n2 and the host of rank 3, which the data does not name: ask the "
            "scheduler). Not the training owner.");
  r.stragglers.pop_back();
  EXPECT_EQ(MakeFirstLine(r).page,
            "now: the hardware team (the host of rank 3, which the data does not name: ask the scheduler). "
            "Not the training owner.");
}

// Two slow GPUs of two hosts hold each other's gain back: fixing one of them helps little.
TEST(FirstLine, TheHostsOfAllCostlyStragglersArePaged) {
  Report r = Healthy();
  r.slowdown.lost_ns_per_step = 21 * kMs;
  r.stragglers = {Slow(10), Slow(10)};
  r.stragglers[0].gain_ns_per_step = 1 * kMs;
  r.stragglers[1].gain_ns_per_step = 1 * kMs;
  r.stragglers[1].ranks = {RankId(6)};
  r.stragglers[1].hosts = {"n2"};
  r.fixes = {{.entries = {0, 1}, .gain_ns_per_step = 20 * kMs}};
  const FirstLine line = MakeFirstLine(r);
  EXPECT_THAT(
      line.text,
      HasSubstr(
          "rank 3 (n1 GPU 3) and rank 6 (n1 GPU 6): slow GPU, sure. Fixing both gains 20.0 ms "
          "(20%) per step, fixing only the first gains 1.00 ms (1.0%), because the other is in the way too"));
  EXPECT_THAT(line.text, Not(HasSubstr("more below")));
  EXPECT_EQ(line.page, "now: the hardware team (hosts n1, n2). Not the training owner.");
}

TEST(FirstLine, TheTeamOfASecondCostlyCauseIsPagedToo) {
  Report r = Healthy();
  r.slowdown.lost_ns_per_step = 21 * kMs;
  r.stragglers = {Slow(12, "stage"), Slow(8)};
  r.stragglers[0].cause = "stage_imbalance";
  EXPECT_EQ(
      MakeFirstLine(r).page,
      "in the morning (most of it is how the job is written, the rest costs 8.0% of the step): the training "
      "owner and the hardware team (host n1).");
  r.stragglers[1].cause = "unknown";
  EXPECT_EQ(MakeFirstLine(r).page,
            "in the morning (most of it is how the job is written, the rest costs 8.0% of the step): the "
            "training owner.");
  r.stragglers[1] = Slow(1);
  EXPECT_EQ(MakeFirstLine(r).page,
            "in the morning (it is how the job is written): the training owner. Not the hardware team.");
}

TEST(FirstLine, TheTeamThatIsAskedSecondIsNamedAsSuch) {
  Report r = Healthy();
  r.slowdown.lost_ns_per_step = 11 * kMs;
  r.stragglers = {Slow(10)};
  r.stragglers[0].cause = "data_loader";
  EXPECT_EQ(
      MakeFirstLine(r).page,
      "now: the training owner (input pipeline); if they find nothing, the cluster operators (host n1). Not "
      "the hardware team.");
}

TEST(FirstLine, TheDesignOfAJobWaitsUntilTheMorningUnlessItChanged) {
  Report r = Healthy();
  r.slowdown.lost_ns_per_step = 31 * kMs;
  r.stragglers = {Slow(30, "stage")};
  r.stragglers[0].cause = "stage_imbalance";
  EXPECT_THAT(MakeFirstLine(r).page,
              StartsWith("in the morning (it is how the job is written): the training owner"));
  r.steps = {{.step = 1}, {.step = 2}, {.step = 3}};
  r.stragglers[0].since_step = 2;
  EXPECT_THAT(MakeFirstLine(r).page, StartsWith("now: the training owner"));
  // A fault that does not lead may still be the reason to page at night.
  r.stragglers = {Slow(30, "stage"), Slow(12)};
  r.stragglers[0].cause = "stage_imbalance";
  EXPECT_THAT(MakeFirstLine(r).page,
              StartsWith("now (slow GPU: 12% of the step): the hardware team (host n1) and the training"));
  EXPECT_EQ(MakeFirstLine(r).wakes, 1u);
  r.stragglers[1] = Slow(8);
  EXPECT_THAT(
      MakeFirstLine(r).page,
      StartsWith(
          "in the morning (most of it is how the job is written, the rest costs 8.0% of the step): the "
          "training owner and the hardware"));
  r.stragglers.clear();
  r.shared_losses = {Shared("host_launch", 30)};
  EXPECT_THAT(MakeFirstLine(r).page,
              StartsWith("in the morning (it is how the job is written): the training owner"));
  r.shared_losses = {Shared("input", 30)};
  EXPECT_THAT(MakeFirstLine(r).page, StartsWith("now: the training owner"));
}

TEST(FirstLine, ASmallLossWaitsUntilTheMorning) {
  Report r = Healthy();
  r.slowdown.lost_ns_per_step = 4 * kMs;
  r.stragglers = {Slow(3)};
  EXPECT_EQ(
      MakeFirstLine(r).page,
      "in the morning (it costs less than 5% of the step): the hardware team (host n1). Not the training "
      "owner.");
  // 7 % of the step, and only likely.
  r.stragglers = {Slow(7)};
  r.stragglers[0].confidence = 0.65;
  EXPECT_THAT(MakeFirstLine(r).page,
              StartsWith("in the morning (it is not certain enough to wake anybody): the hardware team"));
  r.stragglers[0].confidence = 0.9;
  EXPECT_THAT(MakeFirstLine(r).page, StartsWith("now: the hardware team"));
}

TEST(FirstLine, TheLargerOfStragglerAndSharedLossLeads) {
  Report r = Healthy();
  r.slowdown.lost_ns_per_step = 11 * kMs;
  r.stragglers = {Slow(10)};
  r.shared_losses = {Shared("input", 30)};
  const FirstLine line = MakeFirstLine(r);
  EXPECT_EQ(line.headline, Headline::kSlowJob);
  EXPECT_THAT(line.text,
              AllOf(StartsWith("SLOW JOB: data loader. All ranks wait for input 30% of each step (30.0 ms)"),
                    HasSubstr("also rank 3 (n1 GPU 3): slow GPU, sure, 10.0 ms (10%)")));
  EXPECT_THAT(line.page, StartsWith("now: the training owner (input pipeline)"));
  r.shared_losses = {Shared("input", 9)};
  EXPECT_THAT(LineOf(r), StartsWith("STRAGGLER rank 3"));
}

// A part of these belongs to the job's design, so only large ones lead.
TEST(FirstLine, BubblesAndTransfersLeadOnlyIfTheyAreLarge) {
  Report r = Healthy();
  r.shared_losses = {Shared("pipeline_bubble", 43)};
  EXPECT_THAT(LineOf(r), StartsWith("HEALTHY"));
  r.shared_losses = {Shared("pipeline_bubble", 60)};
  EXPECT_THAT(LineOf(r), StartsWith("SLOW JOB: pipeline bubble."));
  r.shared_losses = {Shared("exposed_transfer", 35)};
  EXPECT_THAT(LineOf(r), StartsWith("SLOW JOB: communication that nothing hides."));
  r.slowdown.lost_ns_per_step = 11 * kMs;
  r.stragglers = {Slow(10)};
  EXPECT_THAT(LineOf(r), StartsWith("STRAGGLER rank 3"));
}

TEST(FirstLine, ASlowdownOfAllRanksIsASlowJob) {
  Report r = Healthy();
  r.slowdown.lost_ns_per_step = 11 * kMs;
  r.stragglers = {Slow(10, "job")};
  r.stragglers[0].cause = "common";
  EXPECT_THAT(LineOf(r), StartsWith("SLOW JOB: slower everywhere on rank 3, sure."));
}

TEST(FirstLine, LostTimeWithoutAnOwnerIsUnexplained) {
  Report r = Healthy();
  r.slowdown.lost_ns_per_step = 20 * kMs;
  r.slowdown.unlisted_ns_per_step = 19 * kMs;
  EXPECT_THAT(LineOf(r), StartsWith("UNEXPLAINED 19.0 ms of the 20.0 ms lost per step have no owner"));
  r.stragglers = {Slow(4)};
  r.slowdown.unlisted_ns_per_step = 15 * kMs;
  EXPECT_THAT(LineOf(r), AllOf(StartsWith("UNEXPLAINED 15.0 ms"), HasSubstr("rank 3")));
  EXPECT_EQ(MakeFirstLine(r).page,
            "now: the training owner and the hardware team (host n1) (the cause is not known).");
  r.stragglers = {Slow(13)};
  r.slowdown.unlisted_ns_per_step = 6 * kMs;
  EXPECT_THAT(LineOf(r), AllOf(StartsWith("STRAGGLER rank 3"), HasSubstr("6.00 ms of the 20.0 ms lost")));
}

TEST(FirstLine, TooFewStepsNameTheLargestShare) {
  Report r = Healthy();
  r.capture.steps = 1;
  r.shared_losses = {Shared("input", 30)};
  EXPECT_THAT(LineOf(r), AllOf(StartsWith("TOO FEW STEPS: 1 step recorded whole, a verdict needs 3."),
                               HasSubstr("all ranks wait for input 30% of each step")));
  EXPECT_EQ(MakeFirstLine(r).page, "nobody yet: capture more steps.");
  r.ranks[2].caused_wait = Nanos::Millis(280);
  EXPECT_THAT(LineOf(r), HasSubstr("the others wait for rank 2, mean 40.0 ms per waiting rank and step"));
}

TEST(FirstLine, ACaptureThatIsNotWholeIsPartialAndNeverHealthy) {
  Report r = Healthy();
  r.capture.partial = true;
  r.capture.incomplete = {{.rank = RankId(5), .reason = "its daemon stopped"}};
  EXPECT_THAT(LineOf(r),
              AllOf(StartsWith("PARTIAL NO STRAGGLER FOUND"), HasSubstr("not recorded of rank 5")));
  r.slowdown.lost_ns_per_step = 11 * kMs;
  r.stragglers = {Slow(10)};
  EXPECT_THAT(LineOf(r), StartsWith("PARTIAL STRAGGLER rank 3"));
}

// A shared loss is measured on each rank alone.
TEST(FirstLine, ASharedLossLeadsAlsoIfNoRankCouldBeJudged) {
  Report r = Healthy();
  r.not_judged = {
      {kEverything, "only 0% of the communication could be matched across ranks", "capture all ranks"}};
  EXPECT_THAT(LineOf(r),
              StartsWith("NO STRAGGLER FOUND; nothing could be judged: only 0% of the communication"));
  r.shared_losses = {Shared("host_launch", 70)};
  EXPECT_THAT(LineOf(r), AllOf(StartsWith("SLOW JOB: late launches."),
                               HasSubstr("ranks could not be compared: only 0%")));
  // Late launches are known without a comparison, transfers are not.
  EXPECT_EQ(MakeFirstLine(r).page,
            "nobody yet: capture all ranks, and follow the new report; if that is not possible, in the "
            "morning, the training owner.");
  r.shared_losses = {Shared("exposed_transfer", 70)};
  EXPECT_EQ(MakeFirstLine(r).page, "nobody yet: capture all ranks.");
}

TEST(FirstLine, UnrecordedGraphsComeBeforeTooFewSteps) {
  Report r = Healthy();
  r.capture.steps = 1;
  r.capture.graphs_not_visible = {{.rank = RankId(2), .launches = 40}};
  r.not_judged = {{kEverything, "the kernels of 40 launches of CUDA graphs were not recorded",
                   "start the job otherwise"}};
  EXPECT_THAT(LineOf(r),
              StartsWith("NO STRAGGLER FOUND; nothing could be judged: the kernels of 40 launches"));
}

// The entry of the whole job leads here, not the shared loss that is also large enough.
TEST(FirstLine, OnlyTheLossThatLeadsIsItsShared) {
  Report r = Healthy();
  r.slowdown.lost_ns_per_step = 51 * kMs;
  r.stragglers = {Slow(50, "job")};
  r.shared_losses = {Shared("idle_other", 10)};
  EXPECT_THAT(LineOf(r), StartsWith("SLOW JOB: slow GPU on rank 3"));
  EXPECT_EQ(MakeFirstLine(r).shared, nullptr);
  r.stragglers.clear();
  r.slowdown.lost_ns_per_step = 1 * kMs;
  EXPECT_EQ(MakeFirstLine(r).shared, &r.shared_losses[0]);
}

TEST(FirstLine, WaitingForOneRankContradictsHealthy) {
  Report r = Healthy();
  r.waiting = WaitingRow{};
  r.waiting->causers = {
      {.rank = RankId(5), .mean_wait_ns_per_step = 5 * kMs, .direct_ns_per_step = 35 * kMs, .victims = 7}};
  EXPECT_THAT(LineOf(r),
              AllOf(StartsWith("NO STRAGGLER FOUND"),
                    HasSubstr("but 7 ranks wait for rank 5, mean 5.00 ms per waiting rank and step")));
}

TEST(FirstLine, AnUndecidedStragglerIsNotCalledOne) {
  Report r = Healthy();
  r.stragglers = {Slow(4)};
  r.stragglers[0].verdict = "undecided";
  EXPECT_THAT(LineOf(r),
              AllOf(StartsWith("NO STRAGGLER FOUND yet. Undecided: rank 3"), Not(HasSubstr("sure"))));
}

}  // namespace
}  // namespace lockstep::report
