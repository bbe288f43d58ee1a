// Tests captures whose window a rank opens itself (docs/triggers.md).
#include <cstring>

#include "daemon/captures/captures.h"
#include "daemon/captures/captures_fixture.h"

namespace lockstep::daemon {
namespace {

TEST_F(CapturesTest, ATriggerGivesEachRankItsOwnWindow) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  v1::Trigger trigger;
  trigger.set_begin(v1::Trigger::AT_RANGE);
  trigger.set_end(v1::Trigger::AT_RANGE_END);
  trigger.set_range("epoch@train");
  StartOn("c", trigger);
  ASSERT_EQ(ports_.starts[kA].size(), 1u);
  EXPECT_EQ(ports_.starts[kA][0].begin, ring::Begin::kAtRange);
  EXPECT_EQ(ports_.starts[kA][0].end, ring::End::kAtRangeEnd);
  EXPECT_STREQ(ports_.starts[kA][0].range, "epoch@train");
  Waits(kA, 0);
  EXPECT_EQ(Last(kA).state(), v1::RankState::WAITING);
  Client(kA, ring::ClientState::kCapturing);
  ring::State done{};
  done.capture = ports_.arms.at(kA).back().capture;
  done.state = ring::ClientState::kDone;
  done.t0_realtime_ns = 1000;
  done.t1_realtime_ns = 5000;
  captures_.OnClientState(kA, done);
  ASSERT_EQ(ports_.ended.size(), 1u);
  EXPECT_EQ(ports_.ended[0].window.start, HostTime(1000));
  EXPECT_EQ(ports_.ended[0].window.end, HostTime(5000));
}

TEST_F(CapturesTest, RanksReportTheirStepAndReceiveTheCommonOne) {
  Arm("c", {kA, kB});
  Client(kA, ring::ClientState::kArmed);
  Client(kB, ring::ClientState::kArmed);
  StartOn("c", Steps(v1::Trigger::AT_COMMON_STEP, 0));
  EXPECT_EQ(ports_.starts[kA][0].begin, ring::Begin::kReportStep);
  Waits(kA, 211);
  Waits(kB, 212);
  EXPECT_EQ(Last(kB).step(), 212u);
  EXPECT_EQ(Last(kB).step_ns(), Nanos::Millis(100).ns());
  StartOn("c", Steps(v1::Trigger::AT_STEP, 216));
  ASSERT_EQ(ports_.starts[kA].size(), 2u);
  EXPECT_EQ(ports_.starts[kB][1].begin, ring::Begin::kAtStep);
  EXPECT_EQ(ports_.starts[kB][1].step, 216u);
  StartOn("c", Steps(v1::Trigger::AT_STEP, 300));
  EXPECT_EQ(ports_.starts[kA].size(), 2u) << "agreed is agreed";
  Client(kA, ring::ClientState::kCapturing);
  Client(kA, ring::ClientState::kDone);
  EXPECT_EQ(Last(kA).state(), v1::RankState::DONE);
}

TEST_F(CapturesTest, AClientWithoutTriggersIsNotStartedByOne) {
  ports_.old = {kB};
  Arm("c", {kA, kB});
  Client(kA, ring::ClientState::kArmed);
  Client(kB, ring::ClientState::kArmed);
  StartOn("c", Steps(v1::Trigger::AT_STEP, 5));
  EXPECT_EQ(ports_.starts[kA].size(), 1u);
  EXPECT_EQ(ports_.starts.count(kB), 0u);
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
}

TEST_F(CapturesTest, AStopDuringTheWaitFailsRanksWithoutATrigger) {
  Arm("c", {kA, kB});
  Client(kA, ring::ClientState::kArmed);
  Client(kB, ring::ClientState::kArmed);
  StartOn("c", Steps(v1::Trigger::AT_STEP, 5), Nanos::Seconds(10));
  Waits(kA, 1);
  Waits(kB, 1);
  Stop("c", StopMode::kKeep);
  ASSERT_EQ(ports_.stops[kA].size(), 1u);
  EXPECT_EQ(ports_.stops[kA][0].abort, 0u) << "its trigger may have come just now";
  Client(kA, ring::ClientState::kIdle);
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  Client(kB, ring::ClientState::kDone);
  EXPECT_EQ(Last(kB).state(), v1::RankState::DONE);
}

TEST_F(CapturesTest, WaitsForATriggerAndThenAsLongForItsEnd) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  StartOn("c", Steps(v1::Trigger::AT_STEP, 5), Nanos::Seconds(60));
  Waits(kA, 1);
  Pass(Nanos::Seconds(134));
  EXPECT_EQ(Last(kA).state(), v1::RankState::WAITING);
  Pass(Nanos::Seconds(2));
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
}

}  // namespace
}  // namespace lockstep::daemon
