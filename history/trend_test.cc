#include "history/trend.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "history/history_fixture.h"
#include "history/output/history_json.h"
#include "history/output/history_text.h"

namespace lockstep::history {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

CaptureContext ContextOf(int64_t day, double step_ns) {
  CaptureContext context;
  context.head = MakeCapture("c" + std::to_string(day), "llama", day, step_ns).head;
  context.hosts = {"a", "b"};
  context.devices = {"H100"};
  return context;
}

// Twelve captures of 20 ms and eight of 25 ms. Each capture has its own build.
std::vector<CaptureContext> SlowerJob() {
  std::vector<CaptureContext> contexts;
  for (int64_t day = 0; day < 20; ++day) {
    CaptureContext context = ContextOf(day, (day < 12 ? 20e6 : 25e6) + 1e4 * static_cast<double>(day % 3));
    context.labels = {{"build", std::to_string(day)}, {"commit", day < 12 ? "abc" : "def"}};
    if (day >= 12) context.hosts = {"a", "c"};
    if (day >= 13) {
      context.findings = {{.list = kStragglers,
                           .kind = "rank",
                           .cause = day == 15 ? "unknown" : "gpu_clock",
                           .ranks = {{.rank = RankId(1), .host = "c"}}}};
    }
    contexts.push_back(context);
  }
  return contexts;
}

const Suspect* Find(const TrendChange& change, Suspect::Kind kind, const std::string& after) {
  for (const Suspect& suspect : change.suspects) {
    if (suspect.kind == kind && suspect.after == after) return &suspect;
  }
  return nullptr;
}

TEST(TrendTest, AChangeHasItsCommitItsHostAndItsCulprit) {
  const Trend trend = MakeTrend("llama", Metrics().front(), SlowerJob(), {});
  ASSERT_THAT(trend.changes, SizeIs(1));
  const TrendChange& change = trend.changes[0];
  EXPECT_EQ(trend.points[change.change.first].head.id, "c12");
  EXPECT_TRUE(change.worse);
  const Suspect* commit = Find(change, Suspect::Kind::kLabel, "def");
  ASSERT_NE(commit, nullptr);
  EXPECT_EQ(commit->before, "abc");
  EXPECT_EQ(commit->with_before, 0u);
  EXPECT_EQ(commit->with_after, 8u);
  const Suspect* culprit = Find(change, Suspect::Kind::kCulprit, "c");
  ASSERT_NE(culprit, nullptr);
  EXPECT_EQ(culprit->cause, "gpu_clock");
  EXPECT_EQ(culprit->with_after, 7u);
  ASSERT_NE(Find(change, Suspect::Kind::kHost, "c"), nullptr);
  EXPECT_EQ(Find(change, Suspect::Kind::kHost, "a"), nullptr) << "it was there before";
  const Suspect* build = Find(change, Suspect::Kind::kLabel, "12");
  ASSERT_NE(build, nullptr);
  EXPECT_EQ(change.suspects.back().name, "build") << "one capture of eight explains least";
  EXPECT_EQ(Find(change, Suspect::Kind::kWorldSize, "2"), nullptr);
}

TEST(TrendTest, OtherSizesAndDevicesAreNamed) {
  std::vector<CaptureContext> contexts = SlowerJob();
  for (size_t i = 12; i < contexts.size(); ++i) {
    contexts[i].head.world_size = 4;
    contexts[i].devices = {"H200"};
  }
  const Trend trend = MakeTrend("llama", Metrics().front(), contexts, {});
  ASSERT_THAT(trend.changes, SizeIs(1));
  ASSERT_NE(Find(trend.changes[0], Suspect::Kind::kWorldSize, "4"), nullptr);
  ASSERT_NE(Find(trend.changes[0], Suspect::Kind::kDevice, "H200"), nullptr);
}

TEST(TrendTest, HigherIsBetterForEfficiency) {
  std::vector<CaptureContext> contexts;
  for (int64_t day = 0; day < 20; ++day) {
    contexts.push_back(ContextOf(day, 20e6));
    contexts.back().head.parallel_efficiency = day < 10 ? 0.9 : 0.7;
  }
  const Trend trend = MakeTrend("llama", *FindMetric("efficiency"), contexts, {});
  ASSERT_THAT(trend.changes, SizeIs(1));
  EXPECT_TRUE(trend.changes[0].worse);
  EXPECT_THAT(trend.changes[0].suspects, IsEmpty());
  EXPECT_THAT(TrendText(trend), AllOf(HasSubstr("WORSE since 2023-11-24 22:13 UTC, capture c10"),
                                      HasSubstr("90.0% -> 70.0% (-22.2%)"), HasSubstr("no label, host")));
}

TEST(TrendTest, CapturesWithoutAValueAreLeftOutAndCounted) {
  std::vector<CaptureContext> contexts = SlowerJob();
  contexts[3].head.step_ns.reset();
  const Trend trend = MakeTrend("llama", Metrics().front(), contexts, {});
  EXPECT_THAT(trend.points, SizeIs(19));
  EXPECT_EQ(trend.without_value, 1u);
  ASSERT_THAT(trend.changes, SizeIs(1));
  EXPECT_EQ(trend.points[trend.changes[0].change.first].head.id, "c12");
  EXPECT_THAT(TrendText(trend), HasSubstr("1 capture has no median step and is left out"));
}

TEST(TrendTest, TheTextNamesTheChange) {
  const std::string text = TrendText(MakeTrend("llama", Metrics().front(), SlowerJob(), {}));
  EXPECT_THAT(text, AllOf(HasSubstr("SLOWER since 2023-11-26 22:13 UTC, capture c12"),
                          HasSubstr("20.0 ms -> 25.0 ms (+25.0%)"), HasSubstr("commit abc -> def"),
                          HasSubstr("in 8 of 8 captures after, 0 of 12 before"),
                          HasSubstr("reports name host c: gpu_clock"), Not(HasSubstr("no change"))));
}

TEST(TrendTest, ASteadyJobHasNoChange) {
  std::vector<CaptureContext> contexts;
  for (int64_t day = 0; day < 30; ++day)
    contexts.push_back(ContextOf(day, 20e6 + 1e4 * static_cast<double>(day % 5)));
  const Trend trend = MakeTrend("llama", Metrics().front(), contexts, {});
  EXPECT_THAT(trend.changes, IsEmpty());
  EXPECT_THAT(TrendText(trend), HasSubstr("no change of at least 2%"));
  EXPECT_THAT(TrendJson(trend),
              AllOf(HasSubstr("\"schema\": \"lockstep.history/1\""), HasSubstr("\"changes\": []")));
}

TEST(TrendTest, LongListsAreCutAndSaySo) {
  std::vector<CaptureContext> contexts;
  for (int64_t day = 0; day < 100; ++day) contexts.push_back(ContextOf(day, 20e6));
  EXPECT_THAT(TrendText(MakeTrend("llama", Metrics().front(), contexts, {})),
              HasSubstr("40 older captures are not shown"));
}

}  // namespace
}  // namespace lockstep::history
