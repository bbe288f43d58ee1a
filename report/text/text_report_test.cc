// Compares the text of the report word for word.
#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "report/actions.h"
#include "report/report.h"
#include "report/text/fold_notes.h"

namespace lockstep::report {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::ptrdiff_t LineCount(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

Report Job(int ranks) {
  Report r;
  r.capture.job = "gpt-70b";
  r.capture.hosts = 2;
  r.capture.named_hosts = 2;
  r.capture.steps = 10;
  r.capture.clock.bound = Nanos::Micros(24);
  r.capture.matching.matched_fraction = 0.9997;
  for (int i = 0; i < ranks; ++i) {
    r.ranks.push_back({.rank = RankId(i),
                       .host = i < ranks / 2 ? "n045" : "n046",
                       .device = static_cast<uint32_t>(i % (ranks / 2)),
                       .span = Nanos::Seconds(1),
                       .compute = Nanos::Millis(720),
                       .communication = Nanos::Millis(260),
                       .overlap = Nanos::Millis(100),
                       .exposed_transfer = Nanos::Millis(60),
                       .exposed_wait = Nanos::Millis(100 + i),
                       .exposed_memory = Nanos::Millis(4),
                       .idle = Nanos::Millis(16),
                       .caused_wait = Nanos::Millis(i == 3 ? 6200 : 40)});
  }
  for (int k = 0; k < 10; ++k) r.steps.push_back({.step = 4110 + k, .duration = Nanos::Millis(984)});
  r.slowdown = {.step_ns = 984e6,
                .ideal_step_ns = 884e6,
                .ratio = 1.113,
                .lost_ns_per_step = 100e6,
                .noise_floor_ns_per_step = 4.9e6,
                .interval = Range{1.104, 1.122},
                .noise_ns_per_step = 8e6,
                .unlisted_ns_per_step = 2e6,
                .unexplained_ns_per_step = 0};
  r.efficiency.factors = {
      .parallel = 0.72, .load_balance = 0.87, .communication = 0.84, .orchestration = 0.99};
  r.efficiency.serialisation = 0.89;
  r.efficiency.transfer = 0.93;
  r.not_the_cause = {
      "network: transfers of all 12 comparable groups and pairs within 0.4% of their peers' (worst 1.2 MAD)",
      "hosts and data loading: at most 12.0 us per step on any rank"};
  return r;
}

StragglerRow SlowGpu() {
  return {.kind = "rank",
          .ranks = {RankId(3)},
          .hosts = {"n045"},
          .cause = "gpu_clock",
          .lost_ns_per_step = 90e6,
          .share = 0.9,
          .gain_ns_per_step = 88e6,
          .gain_interval = Range{84e6, 91e6},
          .verdict = "sure",
          .confidence = 0.99,
          .since_step = 4113,
          .affected_steps = 1,
          .excess_before_ns = 1e5,
          .excess_since_ns = 128e6,
          .evidence = {"kernels +18.4% (z 21): matrix products +19.0%, memory-bound +4.1%", "more"},
          .delayed_ranks = 7,
          .action = "read clocks, power limit and temperature of GPU 3 of n045; replace it if they stay low",
          .fix = "replace GPU 3 of n045"};
}

Report WithSlowGpu() {
  Report r = Job(8);
  r.stragglers.push_back(SlowGpu());
  r.fixes.push_back({.entries = {0}, .gain_ns_per_step = 88e6, .gain_interval = Range{84e6, 91e6}});
  r.recommendations = {r.stragglers[0].action};
  return r;
}

TEST(TextReport, AStragglerInTwentyLines) {
  const std::string text =
      RenderText(WithSlowGpu(), {.width = 110, .source = "./lockstep-4711", .has_traces = true});
  EXPECT_EQ(
      text,
      R"(STRAGGLER rank 3 (n045 GPU 3): slow GPU, sure. Fixing it gains 88.0 ms (8.9%) [84.0 ms, 91.0 ms] per step
PAGE now: the hardware team (host n045). Not the training owner.
job gpt-70b  8 ranks on 2 hosts  steps 4110-4119  STEP 984 ms  ideal 884 ms  SLOWDOWN 1.113x [1.104, 1.122]
  lost 100 ms per step = 20 GPU-hours a day  matched 99.97%  host clocks within 24.0 us
DO read clocks, power limit and temperature of GPU 3 of n045; replace it if they stay low
WHY (adds up to 100 ms per step)
    90.0 ms   90%  rank 3 (n045 GPU 3)        slow GPU  sure 0.99
                    kernels +18.4% (z 21): matrix products +19.0%, memory-bound +4.1%
    8.00 ms    8%  noise                      random, of all ranks; below 4.90 ms no rank is named
    2.00 ms    2%  the rest                   each too small to name, or the network's
FIX -> GAIN per step:  replace GPU 3 of n045: 88.0 ms (8.9%) [84.0 ms, 91.0 ms]
TREND rank 3 (n045 GPU 3) 100 us per step beyond its peers before step 4113, 128 ms from then on
WAITING the others waited for rank 3: mean 88.6 ms (96%), per waiting rank and step
TIME of the capture: compute 72%  exposed transfer 6.0%  exposed wait 10%  copies 0.4%  idle 1.6%  overlap 38%
POP parallel efficiency 0.72 = load balance 0.87 x communication 0.84 x orchestration 0.99; serialisation
  0.89, transfer 0.93
NOT THE CAUSE  network: transfers of all 12 comparable groups and pairs within 0.4% of their peers' (worst 1.2
  MAD);  hosts and data loading: at most 12.0 us per step on any rank
TRY lockstep whatif ./lockstep-4711 --fix rank=3
OPEN ./lockstep-4711/merged.pftrace in ui.perfetto.dev: rank 3 beside rank 7, which waited, step 4113
)");
}

TEST(TextReport, AHealthyJobGivesAShortText) {
  Report r = Job(8);
  for (RankRow& row : r.ranks) row.caused_wait = Nanos::Millis(40);
  const std::string text = RenderText(r, {.width = 110, .source = "x"});
  EXPECT_THAT(
      text,
      StartsWith(
          "HEALTHY no rank holds the others back by more than 4.90 ms per step (noise floor); all ranks"));
  EXPECT_THAT(text, Not(HasSubstr("FIX")));
  EXPECT_THAT(text, Not(HasSubstr("TRY")));
  EXPECT_LE(LineCount(text), 20);
}

TEST(TextReport, APairIsUndecidedAndNamesBoth) {
  Report r = WithSlowGpu();
  StragglerRow& s = r.stragglers[0];
  s.kind = "group";
  s.ranks = {RankId(1), RankId(0)};
  s.verdict = "undecided";
  s.confidence = 0.5;
  s.fix = "replace GPU 1 of n045";
  const std::string text = RenderText(r, {.width = 110});
  EXPECT_THAT(text, StartsWith("NO STRAGGLER FOUND yet. Undecided: one of ranks 1, 0: slow GPU; fixing it "
                               "would gain 88.0 ms"));
}

TEST(TextReport, NamesHostsStagesDataAndTheJob) {
  const auto first = [](const std::string& kind, int ranks, std::vector<std::string> hosts) {
    Report r = WithSlowGpu();
    StragglerRow& s = r.stragglers[0];
    s.kind = kind;
    s.ranks.clear();
    for (int i = 0; i < ranks; ++i) s.ranks.push_back(RankId(i));
    s.hosts = std::move(hosts);
    const std::string text = RenderText(r, {.width = 110});
    return text.substr(0, text.find(", sure"));
  };
  EXPECT_EQ(first("host", 4, {"n045"}), "STRAGGLER host n045 (4 ranks): slow GPU");
  EXPECT_EQ(first("stage", 4, {"n045"}), "STRAGGLER the stage of 4 ranks (0, 1, 2, ...): slow GPU");
  EXPECT_EQ(first("data", 0, {}), "STRAGGLER the data: slow GPU");
  EXPECT_EQ(first("data", 1, {"n045"}), "STRAGGLER data of rank 0: slow GPU");
  EXPECT_EQ(first("job", 8, {"n045", "n046"}), "SLOW JOB: slow GPU on all ranks");
  EXPECT_EQ(first("group", 2, {"n045"}), "STRAGGLER group of ranks 0, 1: slow GPU");
}

TEST(TextReport, ALongReportStaysOnePageWithTheSameFirstLines) {
  Report r = WithSlowGpu();
  for (int i = 0; i < 30; ++i) {
    r.stragglers.push_back(SlowGpu());
    r.stragglers.back().lost_ns_per_step = 1e6;
    r.capture.notes.push_back("note " + std::to_string(i) + std::string(150, 'x'));
    r.recommendations.push_back("do " + std::to_string(i));
    r.not_the_cause.push_back(std::string(200, 'y'));
  }
  for (const int width : {100, 110, 160}) {
    const std::string text = RenderText(r, {.width = width, .top = 8});
    EXPECT_LE(LineCount(text), 20) << text;
    EXPECT_THAT(text, StartsWith("STRAGGLER rank 3 (n045 GPU 3): slow GPU, sure."));
    EXPECT_THAT(text, HasSubstr("WHY (adds up to"));
    EXPECT_THAT(text, HasSubstr("DO read clocks"));
    EXPECT_THAT(text, HasSubstr("\nMORE ")) << "it says that lines are left out";
  }
  const std::string whole = RenderText(r, {.width = 100, .top = 8, .lines = 0});
  EXPECT_THAT(whole, Not(HasSubstr("\nMORE ")));
  EXPECT_THAT(whole, HasSubstr("29xxx"));
}

TEST(TextReport, SharedLossesAndWhatWasNotJudgedHaveTheirLines) {
  Report r = Job(8);
  r.shared_losses = {{.kind = "input",
                      .lost_ns_per_step = 300e6,
                      .share_of_step = 0.305,
                      .evidence = {"the GPUs idle while the hosts are in the data loader"},
                      .action = "give the data loader more workers"},
                     {.kind = "copies", .lost_ns_per_step = 20e6, .share_of_step = 0.02, .action = "pin"}};
  r.not_judged = {{"links between hosts", "all ranks share one communicator", "compare it with a baseline"}};
  const std::string text = RenderText(r, {.width = 110});
  EXPECT_THAT(
      text,
      StartsWith("SLOW JOB: data loader. All ranks wait for input 30% of each step (300 ms) = 59 "
                 "GPU-hours a day\nPAGE now: the training owner (input pipeline). Not the hardware team.\n"));
  EXPECT_THAT(
      text, HasSubstr("\nALSO shared by all ranks: copies that nothing hides 2.0% of each step (20.0 ms)\n"));
  EXPECT_THAT(text, HasSubstr("\nFIX -> GAIN per step:  data loader: up to 300 ms (30%)\n"));
  EXPECT_THAT(text, HasSubstr("\nSEEN the GPUs idle while the hosts are in the data loader\n"));
  EXPECT_THAT(text, HasSubstr("\nNOT JUDGED links between hosts: all ranks share one communicator. To judge: "
                              "compare it with a baseline"));
}

TEST(TextReport, IncompleteRanksAreNamedWithTheReason) {
  Report r = Job(8);
  r.capture.partial = true;
  r.capture.incomplete = {{.rank = RankId(5),
                           .reason = "its daemon stopped",
                           .asked = Nanos::Seconds(6),
                           .recorded = Nanos::Seconds(2)},
                          {.rank = RankId(6),
                           .reason = "its daemon stopped",
                           .asked = Nanos::Seconds(6),
                           .recorded = Nanos::Seconds(2)}};
  const std::string text = RenderText(r, {.width = 110});
  EXPECT_THAT(text, StartsWith("PARTIAL NO STRAGGLER FOUND"));
  EXPECT_THAT(text, HasSubstr("\nINCOMPLETE ranks 5, 6: its daemon stopped (2.00 s of 6.00 s recorded)\n"));
}

TEST(TextReport, QuotesCommandsForAShell) {
  const std::string text = RenderText(WithSlowGpu(), {.width = 110, .source = "my job's traces"});
  EXPECT_THAT(text, HasSubstr("TRY lockstep whatif 'my job'\\''s traces' --fix rank=3"));
}

TEST(TextReport, OnlyFilesThatPerfettoReadsAreOpened) {
  Report r = WithSlowGpu();
  for (const char* file : {"rank3.pt.trace.json", "rank3.json.gz"}) {
    r.ranks[3].source_file = file;
    EXPECT_THAT(RenderText(r), HasSubstr(std::string("OPEN ") + file)) << file;
  }
  for (const char* file : {"job.sqlite", "job.sqlite.gz", "job.timeline.gz"}) {
    r.ranks[3].source_file = file;
    EXPECT_THAT(RenderText(r), Not(HasSubstr("OPEN"))) << file;
  }
}

TEST(TextReport, TimesOfRanksAddUpBeyondTheGreatestLength) {
  Report r = Job(8);
  r.ranks.assign(3, {.span = Nanos::Max(), .compute = Nanos::Max()});
  EXPECT_THAT(RenderText(r), HasSubstr("TIME of the capture: compute 100%"));
}

TEST(TextReport, NoiseBelowZeroIsShownWithTheRest) {
  Report r = WithSlowGpu();
  r.slowdown.noise_ns_per_step = -4e6;
  r.slowdown.unlisted_ns_per_step = 14e6;
  const std::string text = RenderText(r, {});
  EXPECT_THAT(text, HasSubstr("  10.0 ms   10%  noise and the rest"));
  EXPECT_THAT(text, Not(HasSubstr("-4.00 ms")));
}

TEST(TextReport, LinesOfWhySumToTheLostTime) {
  const Report r = WithSlowGpu();
  double sum = r.slowdown.noise_ns_per_step.value() + r.slowdown.unlisted_ns_per_step.value() +
               r.slowdown.unexplained_ns_per_step.value();
  for (const StragglerRow& s : r.stragglers) sum += s.lost_ns_per_step;
  EXPECT_DOUBLE_EQ(sum, *r.slowdown.lost_ns_per_step);
}

TEST(FoldNotes, JoinsNotesThatDifferOnlyInTheRank) {
  std::vector<std::string> notes = {"a file was left out"};
  for (int rank = 0; rank < 12; ++rank)
    notes.push_back("no Python profile of rank " + std::to_string(rank) + ": the process runs no Python");
  notes.insert(notes.begin() + 3, "no Python profile of rank 99: no room");
  notes.push_back("rank 7: 3 records have no name");
  EXPECT_THAT(
      FoldNotes(notes),
      ::testing::ElementsAre("a file was left out",
                             "no Python profile of 12 ranks (0, 1, 2, 3, 4, 5, 6, 7, ...): the process "
                             "runs no Python",
                             "no Python profile of rank 99: no room", "rank 7: 3 records have no name"));
}

TEST(Actions, EveryCauseHasAVerbAndTexts) {
  using analysis::Cause;
  using analysis::CulpritKind;
  const ActionTarget target{.gpu = "GPU 3 of n045", .host = "n045", .ranks = "rank 3"};
  for (int i = 0; i <= static_cast<int>(Cause::kVictim); ++i) {
    const auto cause = static_cast<Cause>(i);
    const std::string name(analysis::CauseName(cause));
    EXPECT_NE(CauseInWords(name), name) << name;
    for (const CulpritKind kind : {CulpritKind::kRank, CulpritKind::kHost, CulpritKind::kStage,
                                   CulpritKind::kGroup, CulpritKind::kData, CulpritKind::kJob}) {
      EXPECT_FALSE(FixVerb(cause, kind, target).empty()) << name;
      EXPECT_EQ(ActionFor(cause, kind, target).empty(), cause == Cause::kUnknown || cause == Cause::kVictim)
          << name;
    }
  }
}

}  // namespace
}  // namespace lockstep::report
