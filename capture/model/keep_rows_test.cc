#include "capture/model/keep_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/model/held_bytes.h"
#include "capture/model/timeline_builder_fixture.h"

namespace lockstep::capture {
namespace {

// Three steps of 100 us. Each launches a kernel and a collective that run in the next step.
Capture ThreeSteps() {
  TimelineBuilder t;
  const uint32_t dp = t.Group("dp", {0});
  for (int step = 0; step < 3; ++step) {
    const double at = 100.0 * step;
    t.Rank(0)
        .Step(step, at, 100)
        .Kernel("gemm", at + 105, 10, 7, at + 5)
        .Communication({.group = dp, .sequence = step}, at + 120, 10, 15, at + 20)
        .StreamSynchronize(7, at + 50, 1);
  }
  t.Rank(0).data().window = {TimelineBuilder::At(0), TimelineBuilder::At(400)};
  return t.Build();
}

KeptRows SecondStep() {
  const HostInterval step = {TimelineBuilder::At(100), TimelineBuilder::At(200)};
  return {.activity = [](uint32_t a) { return a == 2 || a == 3; }, .calls = step, .ranges = step};
}

TEST(KeepRows, KeepsCollectivesWithTheirActivities) {
  Capture capture = ThreeSteps();
  RankData& rank = capture.ranks[0];
  KeepRows(SecondStep(), rank);
  ASSERT_EQ(rank.activities.size(), 2u);
  ASSERT_EQ(rank.collectives.size(), 1u);
  EXPECT_EQ(rank.collectives[0].sequence, 1);
  EXPECT_EQ(rank.collectives[0].activity, 1u);
  EXPECT_EQ(rank.activities[1].collective, 0u);
  EXPECT_EQ(rank.activities[0].collective, kNone);
  EXPECT_EQ(rank.activities[0].start, TimelineBuilder::At(205));
}

TEST(KeepRows, KeepsCallsAndRangesByTheirStart) {
  Capture capture = ThreeSteps();
  RankData& rank = capture.ranks[0];
  KeepRows(SecondStep(), rank);
  ASSERT_EQ(rank.api_calls.size(), 3u);
  for (const ApiCall& call : rank.api_calls) {
    EXPECT_GE(call.start, TimelineBuilder::At(100));
    EXPECT_LT(call.start, TimelineBuilder::At(200));
  }
  ASSERT_EQ(rank.ranges.size(), 1u);
  EXPECT_EQ(rank.ranges[0].start, TimelineBuilder::At(100));
  EXPECT_EQ(rank.syncs.size(), 1u);
}

TEST(KeepRows, TheWindowCoversTheKeptWork) {
  Capture capture = ThreeSteps();
  KeepRows(SecondStep(), capture.ranks[0]);
  EXPECT_EQ(capture.ranks[0].window.start, TimelineBuilder::At(100));
  EXPECT_EQ(capture.ranks[0].window.end, TimelineBuilder::At(230));
}

TEST(KeepRows, FreesTheMemoryOfTheOtherRows) {
  Capture capture = ThreeSteps();
  const uint64_t before = HeldBytesOf(capture).rows;
  KeepRows(SecondStep(), capture.ranks[0]);
  EXPECT_LT(HeldBytesOf(capture).rows, before / 2);
}

TEST(HeldBytes, EntriesOfOneProcessShareItsFrames) {
  Capture capture;
  capture.ranks.resize(2);
  auto frames = std::make_shared<HostFrames>();
  frames->frames.resize(1000);
  capture.ranks[0].frames = frames;
  capture.ranks[1].frames = std::move(frames);
  EXPECT_EQ(HeldBytesOf(capture).other, 1000 * sizeof(HostFrame));
}

}  // namespace
}  // namespace lockstep::capture
