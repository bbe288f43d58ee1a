#include "analysis/time/device_load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "capture/model/timeline_builder_fixture.h"

namespace lockstep::analysis {
namespace {

using capture::TimelineBuilder;

std::vector<std::pair<int64_t, double>> Shown(const std::vector<Level>& levels) {
  std::vector<std::pair<int64_t, double>> out;
  for (const Level& level : levels)
    out.emplace_back((level.at - TimelineBuilder::At(0)).ns() / 1000, level.value);
  return out;
}

TEST(DeviceLoad, LaunchesLengthenAQueueAndStartsShortenIt) {
  TimelineBuilder t;
  t.Rank(0)
      .Kernel("a", 10, 30, 7, 0)
      .Kernel("b", 40, 30, 7, 2)
      .Kernel("unlaunched", 80, 1, 7)
      .Kernel("other", 20, 1, 8, 5);
  const capture::Capture capture = t.Build();
  const auto queues = QueuesOf(DeviceWorkOf(capture.ranks[0]));
  ASSERT_EQ(queues.size(), 2u);
  const QueueLevels& queue = queues.at(StreamId(7));
  EXPECT_EQ(queue.launches, 2u);
  EXPECT_EQ(Shown(queue.levels), (std::vector<std::pair<int64_t, double>>{{0, 1}, {2, 2}, {10, 1}, {40, 0}}));
  EXPECT_EQ(Shown(queues.at(StreamId(8)).levels), (std::vector<std::pair<int64_t, double>>{{5, 1}, {20, 0}}));
}

TEST(DeviceLoad, ConcurrentCopiesAddUpAndEndAtZero) {
  TimelineBuilder t;
  // Binary fractions cannot represent these rates.
  t.Rank(0).Copy(1'000'000, 0, 300, 9, -1, 1).Copy(700'001, 100, 70, 10, -1, 1).Copy(0, 400, 5, 9, -1, 1);
  const capture::Capture capture = t.Build();
  const auto copies = CopiesOf(capture.ranks[0], DeviceWorkOf(capture.ranks[0]));
  ASSERT_EQ(copies.size(), 1u);
  const CopyLevels& of = copies.begin()->second;
  EXPECT_EQ(of.copies, 3u);
  EXPECT_EQ(of.unknown, 1u);
  EXPECT_EQ(of.bytes, 1'700'001u);
  EXPECT_EQ(of.busy, Nanos::Micros(300));
  ASSERT_EQ(of.levels.size(), 4u);
  EXPECT_NEAR(of.levels[1].value, 1'000'000 / 300e-6 + 700'001 / 70e-6, 1);
  EXPECT_EQ(of.levels[3].value, 0);
}

// A thinned series is never below the true one at the highest moment of a stretch, and ends with its last
// level.
TEST(DeviceLoad, DownsampledLevelsKeepPeaksAndTheEnd) {
  std::mt19937 random(5);
  std::vector<Level> levels;
  int64_t at = 0;
  for (int i = 0; i < 5000; ++i) {
    at += 1 + static_cast<int64_t>(random() % 1000) * (random() % 50 == 0 ? 100 : 1);
    levels.push_back({HostTime(at), static_cast<double>(random() % 100)});
  }
  levels.push_back({HostTime(at + 10), 0});
  const std::vector<Level> thin = Downsampled(levels, 200);
  EXPECT_LE(thin.size(), 200u);
  EXPECT_GT(thin.size(), 100u);
  EXPECT_TRUE(
      std::is_sorted(thin.begin(), thin.end(), [](const Level& a, const Level& b) { return a.at < b.at; }));
  const auto value_at = [](const std::vector<Level>& of, HostTime when) {
    const auto later =
        std::upper_bound(of.begin(), of.end(), when, [](HostTime x, const Level& l) { return x < l.at; });
    return later == of.begin() ? 0 : (later - 1)->value;
  };
  levels.pop_back();
  for (const Level& level : levels) EXPECT_GE(value_at(thin, level.at), level.value) << level.at.ns();
  EXPECT_EQ(thin.back().value, 0);
  EXPECT_EQ(thin.back().at, HostTime(at + 10));
  const std::vector<Level> few(levels.begin(), levels.begin() + 10);
  EXPECT_EQ(Downsampled(few, 200).size(), 10u);
}

}  // namespace
}  // namespace lockstep::analysis
