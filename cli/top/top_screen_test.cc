#include "cli/top/top_screen.h"

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/top/top_fixture.h"
#include "cli/top/top_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TopModel SlowSinceTheFourth() {
  TopModel model;
  model.Add(PaceOf());
  for (uint64_t n = 1; n <= 3; ++n) model.Add(SampleOf(n, Health::kHealthy));
  for (uint64_t n = 4; n <= 9; ++n) model.Add(SampleOf(n, Health::kRank5Slow));
  return model;
}

std::string Page(const TopModel& model, const TopScreenOptions& options) {
  return absl::StrJoin(RenderTop(model, options), "\n") + "\n";
}

// Compares with tests/golden/top/NAME. If they differ, the actual text is written to NAME.actual.
void ExpectGolden(const std::string& name, const std::string& made) {
  const std::string path = absl::StrCat(LOCKSTEP_GOLDEN_DIR, "/top/", name);
  std::ifstream file(path, std::ios::binary);
  const std::string golden(std::istreambuf_iterator<char>(file), {});
  if (golden != made) std::ofstream(path + ".actual", std::ios::binary) << made;
  EXPECT_EQ(golden, made) << path;
}

TEST(TopScreen, FitsThreeWidthsAsText) {
  const TopModel model = SlowSinceTheFourth();
  for (const size_t width : {60u, 80u, 140u}) {
    ExpectGolden(absl::StrCat("text_", width, ".txt"),
                 Page(model, {.width = width, .letters = TopLetters::kAscii}));
  }
}

TEST(TopScreen, MatchesTheGoldenTerminalOutput) {
  ExpectGolden("screen_80x24.txt",
               Page(SlowSinceTheFourth(), {.width = 80, .height = 24, .page = TopPage::kLive}));
}

TEST(TopScreen, FitsTheTerminal) {
  const TopModel model = SlowSinceTheFourth();
  for (const TopPage page : {TopPage::kLive, TopPage::kHeld, TopPage::kHelp}) {
    for (size_t width = 60; width < 200; width += 7) {
      for (size_t height = 1; height < 60; height += 3) {
        const auto lines = RenderTop(model, {.width = width, .height = height, .page = page});
        ASSERT_LE(lines.size(), height) << width << "x" << height;
        for (const std::string& line : lines) ASSERT_LE(Columns(line), width) << line;
      }
    }
  }
}

TEST(TopScreen, UsesColourOnlyOnRequest) {
  const TopModel model = SlowSinceTheFourth();
  EXPECT_THAT(Page(model, {.color = TopColor::kPlain}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(Page(model, {.color = TopColor::kColored}), HasSubstr("\x1b[1;31mSTRAGGLER\x1b[0m"));
}

TEST(TopScreen, ScrollingStopsAtTheLastRank) {
  const TopModel model = SlowSinceTheFourth();
  TopScreenOptions options{.height = 16, .page = TopPage::kLive, .sort = TopSort::kRank};
  const std::string top = Page(model, options);
  EXPECT_THAT(top, HasSubstr("RANK*"));
  options.scroll = 100;
  const std::string bottom = Page(model, options);
  EXPECT_THAT(bottom, Not(testing::Eq(top)));
  EXPECT_THAT(bottom, HasSubstr("\n    7  node-b"));
  EXPECT_THAT(bottom, Not(HasSubstr("\n    0  node-a")));
}

TEST(TopScreen, ShowsWaitingSteppedBackMissingAndEnded) {
  TopModel model;
  model.Add(PaceOf());
  EXPECT_THAT(Page(model, {}), HasSubstr("waiting for the first sample"));
  v1::WatchEvent sample = SampleOf(1, Health::kHealthy);
  sample.mutable_sample()->add_missing_ranks(6);
  model.Add(sample);
  EXPECT_THAT(Page(model, {}), HasSubstr("MISSING rank 6"));
  model.Add(PauseOf(kFirstBegin + 11 * kSecond));
  EXPECT_THAT(Page(model, {}),
              HasSubstr("STEPPED BACK another capture comes first: rank 0: the sample gave way"));
  v1::WatchEvent ended;
  ended.mutable_ended();
  model.Add(ended);
  EXPECT_THAT(Page(model, {}), HasSubstr("ENDED the job has ended, after 1 samples"));
  EXPECT_THAT(Page(model, {}), Not(HasSubstr("STEPPED BACK")));
}

TEST(TopScreen, ShowsWhatIsNoticedBetweenSamples) {
  TopModel model = SlowSinceTheFourth();
  model.Add(NoticeOfRank5());
  std::string page = Page(model, {.width = 200, .letters = TopLetters::kAscii});
  EXPECT_THAT(
      page,
      HasSubstr("\nSLOWER rank 5 (node-b) takes 15.0 ms longer per step since step 120: 99.0 ms instead of "
                "84.0 ms without communication; the job's steps take 116.0 ms instead of 101.0 ms; "
                "capture 20260301-120000-abcdef\n"));
  EXPECT_THAT(page, Not(HasSubstr("rank 3 (node-a) takes"))) << "it has ended";
  EXPECT_THAT(page, HasSubstr("\n  all steps, by minute: __# 116 ms\n"));
  model.Add(NoticeOfHang());
  page = Page(model, {.width = 200});
  EXPECT_THAT(
      page, HasSubstr("\nHANG rank 5 (node-b GPU 1) never entered all_reduce #1,532 of dp_0; 7 ranks wait"));
  EXPECT_THAT(page, Not(HasSubstr("SLOWER"))) << "the newest notice counts";
}

TEST(TopScreen, ANarrowTerminalKeepsTheNewestMinutes) {
  TopModel model = SlowSinceTheFourth();
  v1::WatchEvent notice = NoticeOfRank5();
  v1::JobSteps& steps = *notice.mutable_notice()->mutable_steps();
  steps.clear_trend_ns();
  for (int minute = 0; minute < 60; ++minute) steps.add_trend_ns((minute < 57 ? 101 : 116) * kMs);
  model.Add(notice);
  for (const size_t width : {60u, 80u}) {
    const auto lines = RenderTop(model, {.width = width, .letters = TopLetters::kAscii});
    EXPECT_THAT(lines, Contains(HasSubstr("_### 116 ms"))) << width;
    for (const std::string& line : lines) EXPECT_LE(Columns(line), width) << line;
  }
}

TEST(TopScreen, ShowsAHangBeforeTheFirstSample) {
  TopModel model;
  model.Add(PaceOf());
  model.Add(NoticeOfHang());
  EXPECT_THAT(Page(model, {}), HasSubstr("HANG rank 5 (node-b GPU 1) never entered"));
}

TEST(TopScreen, CountsTheSlowRanksThatItDoesNotShow) {
  TopModel model = SlowSinceTheFourth();
  v1::WatchEvent notice = NoticeOfRank5();
  v1::JobSteps& steps = *notice.mutable_notice()->mutable_steps();
  const v1::Slowdown slow = steps.slowdowns(1);
  for (int i = 0; i < 4; ++i) *steps.add_slowdowns() = slow;
  model.Add(notice);
  EXPECT_THAT(Page(model, {}), HasSubstr("  and 2 more: lockstep status"));
}

TEST(TopScreen, EscapesControlCharactersInNames) {
  TopModel model;
  v1::WatchEvent pace = PaceOf();
  pace.mutable_pace()->set_job_name("a\x1b[2Jb");
  model.Add(pace);
  v1::WatchEvent notice = NoticeOfHang();
  notice.mutable_notice()->mutable_hangs(0)->set_sentence("a\x1b[2Jb");
  model.Add(notice);
  v1::WatchEvent sample = SampleOf(1, Health::kRank5Slow);
  sample.mutable_sample()->mutable_ranks(0)->set_host("evil\x1b]0;x\x07");
  sample.mutable_sample()->mutable_groups(0)->set_group("g\nh");
  model.Add(sample);
  for (const TopPage page : {TopPage::kText, TopPage::kLive})
    EXPECT_THAT(Page(model, {.page = page}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(RenderTop(model, {}), Contains(HasSubstr("g?h")));
}

TEST(Sparkline, ScalesBetweenTheExtremesAndLeavesHoles) {
  EXPECT_EQ(Sparkline({1.0, std::nullopt, 8.0}, TopLetters::kAscii), "_ #");
  EXPECT_EQ(Sparkline({1.0, 8.0}, TopLetters::kUnicode), "▁█");
  EXPECT_EQ(Sparkline({100.0, 100.1, 99.9}, TopLetters::kAscii).find('#'), std::string::npos)
      << "noise does not fill the height";
  EXPECT_EQ(Sparkline({}, TopLetters::kAscii), "");
  EXPECT_EQ(Sparkline({std::nullopt}, TopLetters::kAscii), " ");
}

}  // namespace
}  // namespace lockstep::cli
