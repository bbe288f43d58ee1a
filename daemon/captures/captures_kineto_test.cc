// Tests captures in which PyTorch's profiler records some of the ranks.
#include <cstring>

#include "daemon/captures/captures.h"
#include "daemon/captures/captures_fixture.h"

namespace lockstep::daemon {
namespace {

class KinetoInCapturesTest : public CapturesTest {
 protected:
  void ArmThroughKineto(const std::vector<ProcessId>& all, const std::vector<ProcessId>& through_kineto) {
    v1::Arm arm;
    arm.set_capture("c");
    arm.set_framework(5);
    arm.set_timeout_ns(Nanos::Seconds(5).ns());
    for (const ProcessId& p : all) ToProto(p, arm.add_processes());
    for (const ProcessId& p : through_kineto) ToProto(p, arm.add_kineto());
    for (const ProcessId& p : if_held_) ToProto(p, arm.add_kineto_if_held());
    captures_.OnArm(kUplink, arm);
  }
  void Held(const ProcessId& p) {
    ring::State message{};
    message.capture = ports_.arms.at(p).back().capture;
    message.state = ring::ClientState::kFailed;
    message.refusal = ring::Refusal::kHeld;
    std::strcpy(message.holder, "nsys");
    std::strcpy(message.text, "CUPTI's subscriber is nsys");
    captures_.OnClientState(p, message);
  }

  std::vector<ProcessId> if_held_;
};

TEST_F(KinetoInCapturesTest, AClientWithHeldCuptiSwitchesToTheProfiler) {
  if_held_ = {kA, kB};
  ArmThroughKineto({kA, kB}, {});
  EXPECT_TRUE(ports_.kineto.empty());
  Client(kA, ring::ClientState::kArmed);
  Held(kB);
  EXPECT_EQ(ports_.kineto, (std::map<ProcessId, uint32_t>{{kB, 5}}));
  EXPECT_EQ(Last(kB).state(), v1::RankState::SEEN);
  EXPECT_TRUE(Last(kB).went_over());
  EXPECT_EQ(Last(kB).refusal(), v1::RankState::HELD);
  EXPECT_EQ(Last(kB).holder(), "nsys");
  EXPECT_EQ(Last(kB).text(), "CUPTI's subscriber is nsys");
  ASSERT_EQ(ports_.arms[kB].size(), 2u) << "the second goes to its profiler";
  EXPECT_EQ(ports_.arms[kB][1].activities, ports_.arms[kA][0].activities);
  EXPECT_TRUE(ports_.ended.empty());
  Client(kB, ring::ClientState::kArmed);
  EXPECT_EQ(Last(kB).state(), v1::RankState::ARMED);
  EXPECT_EQ(Last(kB).lead_ns(), Nanos::Seconds(9).ns()) << "all share its later start";
  EXPECT_TRUE(Last(kB).went_over());
  EXPECT_FALSE(Last(kA).went_over());
  // The same failure from its profiler is final.
  Held(kB);
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
}

TEST_F(KinetoInCapturesTest, AHeldClientStaysFailedIfSwitchingIsNotAllowed) {
  ArmThroughKineto({kA}, {});
  Held(kA);
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  EXPECT_EQ(Last(kA).refusal(), v1::RankState::HELD);
  EXPECT_EQ(Last(kA).text(), "CUPTI's subscriber is nsys");
  EXPECT_TRUE(ports_.kineto.empty());
}

TEST_F(KinetoInCapturesTest, AHeldClientStaysFailedIfNoProfilerPolls) {
  if_held_ = {kA};
  ArmThroughKineto({kA}, {});
  ports_.unreached = {kA};
  Held(kA);
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  EXPECT_FALSE(Last(kA).went_over());
  EXPECT_EQ(ports_.ended.size(), 1u) << "its end is reported like any other's";
}

TEST_F(KinetoInCapturesTest, AClientThatFailsForAnotherReasonStaysFailed) {
  if_held_ = {kA};
  ArmThroughKineto({kA}, {});
  Client(kA, ring::ClientState::kFailed, "no CUPTI library was found");
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  EXPECT_EQ(Last(kA).refusal(), v1::RankState::REFUSAL_NONE);
}

TEST_F(KinetoInCapturesTest, AClientThatFailsAfterTheStartDoesNotSwitch) {
  if_held_ = {kA, kB};
  ArmThroughKineto({kA, kB}, {});
  Client(kA, ring::ClientState::kArmed);
  Start("c");
  Held(kB);
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
  EXPECT_TRUE(ports_.kineto.empty());
}

TEST_F(KinetoInCapturesTest, AreMembersWithALongerLead) {
  ArmThroughKineto({kA, kB}, {kB});
  EXPECT_EQ(ports_.kineto, (std::map<ProcessId, uint32_t>{{kB, 5}}));
  Client(kA, ring::ClientState::kArmed);
  Client(kB, ring::ClientState::kArmed);
  EXPECT_EQ(Last(kA).lead_ns(), 0);
  EXPECT_EQ(Last(kB).lead_ns(), Nanos::Seconds(9).ns());
}

TEST_F(KinetoInCapturesTest, ReportTheReasonOfADelayAndProgress) {
  ArmThroughKineto({kA}, {kA});
  Client(kA, ring::ClientState::kIdle, "its profiler is busy");
  EXPECT_EQ(Last(kA).state(), v1::RankState::SEEN);
  EXPECT_EQ(Last(kA).text(), "its profiler is busy");
  Client(kA, ring::ClientState::kArmed);
  EXPECT_EQ(Last(kA).text(), "");
  Start("c");
  Client(kA, ring::ClientState::kCapturing);
  Client(kA, ring::ClientState::kCapturing, "its profiler writes the trace");
  EXPECT_EQ(Last(kA).text(), "its profiler writes the trace");
}

TEST_F(KinetoInCapturesTest, HaveALongerTimeoutThanClients) {
  ArmThroughKineto({kA, kB}, {kB});
  for (const ProcessId& p : {kA, kB}) Client(p, ring::ClientState::kArmed);
  Start("c");
  for (const ProcessId& p : {kA, kB}) Client(p, ring::ClientState::kCapturing);
  Pass(Nanos::Seconds(30));
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  EXPECT_EQ(Last(kB).state(), v1::RankState::CAPTURING);
  Pass(Nanos::Seconds(200));
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
  EXPECT_NE(Last(kB).text().find("its profiler left no trace"), std::string::npos) << Last(kB).text();
  Drained();
  EXPECT_FALSE(captures_.Busy());
}

TEST_F(KinetoInCapturesTest, AreRefusedIfTheProfilerDoesNotPoll) {
  ports_.unreached = {kA, kB};
  ArmThroughKineto({kA, kB}, {kA});
  EXPECT_NE(Last(kA).text().find("on-demand traces"), std::string::npos);
  EXPECT_NE(Last(kB).text().find("--via kineto"), std::string::npos);
  EXPECT_EQ(ports_.sent_ends, (std::multiset<ProcessId>{kA, kB}));
}

TEST_F(KinetoInCapturesTest, CountIterationsIfStepsAreRequested) {
  ArmThroughKineto({kA, kB}, {kA, kB});
  for (const ProcessId& p : {kA, kB}) Client(p, ring::ClientState::kArmed);
  v1::Start by;
  by.set_kineto_multiple(100);
  StartOn("c", Steps(v1::Trigger::AT_COMMON_STEP, 0), Nanos::Seconds(60), by);
  ASSERT_EQ(ports_.iteration_starts[kB].size(), 1u);
  const auto& [iterations, give_up] = ports_.iteration_starts[kB][0];
  EXPECT_EQ(iterations.first, std::nullopt);
  EXPECT_EQ(iterations.multiple, 100u);
  EXPECT_EQ(iterations.count, 3u);
  EXPECT_EQ(give_up, clock_.Realtime() + Nanos::Seconds(60));
  Client(kA, ring::ClientState::kWaiting);
  EXPECT_EQ(Last(kA).state(), v1::RankState::WAITING);
  Client(kA, ring::ClientState::kCapturing);
  EXPECT_EQ(Last(kA).state(), v1::RankState::CAPTURING);
  Client(kB, ring::ClientState::kWaiting);
  // A profiler that never finishes is stopped by its own limit or by this one.
  Pass(Nanos::Seconds(320));
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
}

TEST_F(KinetoInCapturesTest, AnIterationNumberIsTheProfilersOwn) {
  ArmThroughKineto({kA}, {kA});
  Client(kA, ring::ClientState::kArmed);
  StartOn("c", Steps(v1::Trigger::AT_STEP, 5000));
  ASSERT_EQ(ports_.iteration_starts[kA].size(), 1u);
  EXPECT_EQ(ports_.iteration_starts[kA][0].first.first, 5000u);
}

TEST_F(KinetoInCapturesTest, RefusesUnsupportedTriggersWithAReason) {
  v1::Trigger range;
  range.set_begin(v1::Trigger::AT_RANGE);
  range.set_end(v1::Trigger::AT_RANGE_END);
  v1::Trigger duration = Steps(v1::Trigger::AT_STEP, 5);
  duration.set_end(v1::Trigger::AFTER_DURATION);
  duration.set_duration_ns(1'000'000'000);
  for (const v1::Trigger& trigger : {range, duration}) {
    ArmThroughKineto({kA}, {kA});
    Client(kA, ring::ClientState::kArmed);
    StartOn("c", trigger);
    EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
    EXPECT_NE(Last(kA).text().find("--start-on-step with --steps"), std::string::npos) << Last(kA).text();
    Drained();
    Pass(Nanos::Seconds(61));
  }
  ArmThroughKineto({kA}, {kA});
  Client(kA, ring::ClientState::kArmed);
  v1::Start start;
  start.set_kineto_begin(v1::Start::NOT_BY_NUMBER);
  StartOn("c", Steps(v1::Trigger::AT_STEP, 5), Nanos::Seconds(60), start);
  EXPECT_NE(Last(kA).text().find("without --start-on-step"), std::string::npos) << Last(kA).text();
}

TEST_F(KinetoInCapturesTest, BesideClientsTheyRecordAWindowAroundTheAgreedSteps) {
  ArmThroughKineto({kA, kB}, {kB});
  for (const ProcessId& p : {kA, kB}) Client(p, ring::ClientState::kArmed);
  v1::Start later;
  later.set_kineto_begin(v1::Start::LATER);
  StartOn("c", Steps(v1::Trigger::AT_COMMON_STEP, 0), Nanos::Seconds(60), later);
  EXPECT_EQ(ports_.starts[kA].size(), 1u);
  EXPECT_EQ(ports_.starts.count(kB) + ports_.iteration_starts.count(kB), 0u);
  Waits(kA, 211);
  v1::Start agreed;
  agreed.set_kineto_begin(v1::Start::IN_WINDOW);
  agreed.set_kineto_t0_ns((clock_.Realtime() + Nanos::Seconds(9)).ns());
  agreed.set_kineto_t1_ns((clock_.Realtime() + Nanos::Seconds(12)).ns());
  StartOn("c", Steps(v1::Trigger::AT_STEP, 305), Nanos::Seconds(60), agreed);
  EXPECT_EQ(ports_.starts[kA].size(), 2u);
  ASSERT_EQ(ports_.starts[kB].size(), 1u);
  EXPECT_EQ(ports_.starts[kB][0].begin, ring::Begin::kAtT0);
  EXPECT_EQ(ports_.starts[kB][0].t0_realtime_ns, agreed.kineto_t0_ns());
  Client(kB, ring::ClientState::kCapturing);
  Client(kB, ring::ClientState::kDone);
  ASSERT_EQ(ports_.ended.size(), 1u);
  EXPECT_EQ(ports_.ended[0].window.length(), Nanos::Seconds(3));
}

}  // namespace
}  // namespace lockstep::daemon
