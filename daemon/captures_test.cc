#include "daemon/captures.h"

#include <cstring>

#include "daemon/clock_fake.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

constexpr UplinkId kUplink = 1;
constexpr ProcessId kA{10, 1};
constexpr ProcessId kB{11, 1};

struct FakePorts final : CapturePorts {
  template <typename Message>
  bool Take(std::vector<Message>& into, const ProcessId& process, const Message& message) {
    if (deaf.count(process)) return false;
    into.push_back(message);
    return true;
  }
  bool SendToClient(const ProcessId& p, const ring::Arm& m) override { return Take(arms[p], p, m); }
  bool SendToClient(const ProcessId& p, const ring::Start& m) override { return Take(starts[p], p, m); }
  bool SendToClient(const ProcessId& p, const ring::Stop& m) override { return Take(stops[p], p, m); }
  bool ChoosePath(UplinkId, const ProcessId& p, const std::string&, std::optional<uint32_t> framework) override {
    if (framework) kineto[p] = *framework;
    return unreached.count(p) == 0;
  }
  bool StartIterations(const ProcessId& p, const KinetoIterations& iterations, HostTime give_up) override {
    iteration_starts[p].push_back({iterations, give_up});
    return deaf.count(p) == 0;
  }
  bool GoOverToKineto(UplinkId uplink, const ProcessId& p, const std::string& capture, uint32_t framework) override {
    return ChoosePath(uplink, p, capture, framework);
  }
  Nanos Lead(const ProcessId& p) override { return kineto.count(p) ? Nanos::Seconds(9) : Nanos(); }
  bool MayCapture(UplinkId, const ProcessId& p) override { return here.count(p) != 0; }
  bool KnowsTriggers(const ProcessId& p) override { return old.count(p) == 0; }
  uint64_t BeginDrain(UplinkId, const ProcessId& p, const std::string&) override {
    EXPECT_TRUE(draining.insert(p).second) << "begun twice";
    return ++epoch;
  }
  void EndDrain(const ProcessId& p, uint64_t number, const HostInterval& window) override {
    EXPECT_TRUE(draining.count(p)) << "ended what was not begun";
    ended.push_back({p, number, window});
  }
  void RestartDrain(const ProcessId& p) override { restarted.insert(p); }
  void AbandonDrain(UplinkId, const ProcessId& p, const std::string&) override {
    abandoned.insert(p);
    draining.erase(p);
  }
  void SendEnd(UplinkId, const ProcessId& p, const std::string&) override { sent_ends.insert(p); }
  void SendStates(UplinkId, v1::RankStates update) override {
    for (const auto& state : update.states()) states[FromProto(state.process())].push_back(state);
  }
  HostTime ToHost(UplinkId, JobTime t) override { return HostTime(t.ns() + offset.ns()); }

  struct Ended {
    ProcessId process;
    uint64_t number;
    HostInterval window;
  };
  std::set<ProcessId> here = {kA, kB};
  std::set<ProcessId> deaf;
  std::set<ProcessId> old;  // clients
  std::set<ProcessId> unreached;
  std::map<ProcessId, uint32_t> kineto;
  std::map<ProcessId, std::vector<std::pair<KinetoIterations, HostTime>>> iteration_starts;
  std::map<ProcessId, std::vector<ring::Arm>> arms;
  std::map<ProcessId, std::vector<ring::Start>> starts;
  std::map<ProcessId, std::vector<ring::Stop>> stops;
  std::set<ProcessId> draining;
  std::set<ProcessId> restarted;
  std::multiset<ProcessId> sent_ends;
  std::set<ProcessId> abandoned;
  std::vector<Ended> ended;
  std::map<ProcessId, std::vector<v1::RankState>> states;
  uint64_t epoch = 0;
  Nanos offset;
};

class CapturesTest : public testing::Test {
 protected:
  void Arm(const std::string& capture, std::vector<ProcessId> processes, Nanos timeout = Nanos::Seconds(5)) {
    v1::Arm arm;
    arm.set_capture(capture);
    for (const ProcessId& p : processes) ToProto(p, arm.add_processes());
    arm.set_timeout_ns(timeout.ns());
    captures_.OnArm(kUplink, arm);
  }
  void Start(const std::string& capture, Nanos from_now = Nanos::Millis(50),
             Nanos length = Nanos::Seconds(2)) {
    v1::Start start;
    start.set_capture(capture);
    const int64_t now = clock_.Realtime().ns() - ports_.offset.ns();
    start.set_t0_ns(now + from_now.ns());
    start.set_t1_ns(now + (from_now + length).ns());
    captures_.OnStart(kUplink, start);
  }
  void StartOn(const std::string& capture, const v1::Trigger& trigger, Nanos patience = Nanos::Seconds(60), v1::Start start = {}) {
    start.set_capture(capture);
    start.set_t0_ns(clock_.Realtime().ns());
    start.set_t1_ns((clock_.Realtime() + patience).ns());
    *start.mutable_trigger() = trigger;
    captures_.OnStart(kUplink, start);
  }
  static v1::Trigger Steps(v1::Trigger::Begin begin, uint64_t step) {
    v1::Trigger trigger;
    trigger.set_begin(begin);
    trigger.set_end(v1::Trigger::AFTER_STEPS);
    trigger.set_step(step);
    trigger.set_steps(3);
    return trigger;
  }
  void Waits(const ProcessId& p, uint64_t step) {
    ring::State message{};
    message.capture = ports_.arms.at(p).back().capture;
    message.state = ring::ClientState::kWaiting;
    message.step = step;
    message.step_ns = Nanos::Millis(100).ns();
    captures_.OnClientState(p, message);
  }
  enum class StopMode { kKeep, kAbort };
  void Stop(const std::string& capture, StopMode mode) {
    v1::Stop stop;
    stop.set_capture(capture);
    stop.set_abort(mode == StopMode::kAbort);
    captures_.OnStop(kUplink, stop);
  }
  void Client(const ProcessId& p, ring::ClientState state, const char* text = "") {
    ring::State message{};
    message.capture = ports_.arms.at(p).back().capture;
    message.state = state;
    message.records = 42;
    message.outside_window = 7;
    message.late_ns = 3;
    std::strcpy(message.text, text);
    captures_.OnClientState(p, message);
  }
  // The drainer catches up.
  void Drained() {
    for (const auto& e : std::exchange(ports_.ended, {})) {
      ports_.draining.erase(e.process);
      captures_.OnDrained(e.process, e.number, 5);
    }
  }
  void Pass(Nanos time) {
    clock_.Advance(time);
    captures_.Tick();
  }
  v1::RankState Last(const ProcessId& p) const { return ports_.states.at(p).back(); }

  FakeClock clock_;
  FakePorts ports_;
  Captures captures_{clock_, ports_};
};

TEST_F(CapturesTest, GoThroughTheirStatesInOrder) {
  ports_.offset = Nanos::Millis(10);
  Arm("c", {kA});
  ASSERT_EQ(ports_.arms[kA].size(), 1u);
  EXPECT_EQ(ports_.arms[kA][0].epoch, 1u);
  EXPECT_EQ(ports_.arms[kA][0].activities, ring::kDefaultActivities);
  Client(kA, ring::ClientState::kArmed);
  Start("c");
  ASSERT_EQ(ports_.starts[kA].size(), 1u);
  EXPECT_EQ(ports_.starts[kA][0].t0_realtime_ns, clock_.Realtime().ns() + Nanos::Millis(50).ns());
  Client(kA, ring::ClientState::kCapturing);
  EXPECT_TRUE(captures_.Busy(kUplink));
  Client(kA, ring::ClientState::kDone);
  EXPECT_TRUE(captures_.Busy());
  Drained();
  EXPECT_FALSE(captures_.Busy());
  std::vector<int> path;
  for (const auto& state : ports_.states[kA]) path.push_back(state.state());
  EXPECT_EQ(path, (std::vector<int>{v1::RankState::SEEN, v1::RankState::ARMED, v1::RankState::CAPTURING,
                                    v1::RankState::DONE}));
  EXPECT_EQ(Last(kA).records(), 42u);
  EXPECT_EQ(Last(kA).outside_window(), 7u);
  EXPECT_EQ(Last(kA).late_ns(), 3);
}

TEST_F(CapturesTest, ATriggersWindowIsEachRanksOwn) {
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

TEST_F(CapturesTest, RanksTellTheirStepAndAreToldTheCommonOne) {
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

TEST_F(CapturesTest, AClientThatKnowsNoTriggersIsNotStartedByOne) {
  ports_.old = {kB};
  Arm("c", {kA, kB});
  Client(kA, ring::ClientState::kArmed);
  Client(kB, ring::ClientState::kArmed);
  StartOn("c", Steps(v1::Trigger::AT_STEP, 5));
  EXPECT_EQ(ports_.starts[kA].size(), 1u);
  EXPECT_EQ(ports_.starts.count(kB), 0u);
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
}

TEST_F(CapturesTest, WhoWaitsIsStoppedGentlyAndGivenUpInTheEnd) {
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

TEST_F(CapturesTest, ATriggerIsWaitedForAndThenItsEndAsLongAgain) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  StartOn("c", Steps(v1::Trigger::AT_STEP, 5), Nanos::Seconds(60));
  Waits(kA, 1);
  Pass(Nanos::Seconds(134));
  EXPECT_EQ(Last(kA).state(), v1::RankState::WAITING);
  Pass(Nanos::Seconds(2));
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
}

TEST_F(CapturesTest, RefuseProcessesThatAreNotHere) {
  ports_.here = {kA};
  Arm("c", {kA, kB});
  EXPECT_EQ(Last(kB).state(), v1::RankState::GONE);
  EXPECT_EQ(ports_.arms.count(kB), 0u);
  EXPECT_TRUE(ports_.ended.empty());
  EXPECT_EQ(ports_.sent_ends, std::multiset<ProcessId>{kB});
}

TEST_F(CapturesTest, EndWhenNobodyCouldBeArmed) {
  ports_.here = {};
  Arm("c", {kA, kB});
  EXPECT_FALSE(captures_.Busy());
}

TEST_F(CapturesTest, GiveUpRanksThatDoNotArmInTimeAndGoOnWithTheOthers) {
  Arm("c", {kA, kB}, Nanos::Seconds(5));
  Client(kA, ring::ClientState::kArmed);
  Pass(Nanos::Millis(4999));
  EXPECT_EQ(Last(kB).state(), v1::RankState::SEEN);
  Pass(Nanos::Millis(1));
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
  ASSERT_EQ(ports_.stops[kB].size(), 1u);
  EXPECT_EQ(ports_.stops[kB][0].abort, 1u);
  EXPECT_EQ(Last(kA).state(), v1::RankState::ARMED);
  Client(kB, ring::ClientState::kArmed);  // too late, and it has been told
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
  Start("c");
  EXPECT_EQ(ports_.starts[kA].size(), 1u);
  EXPECT_EQ(ports_.starts.count(kB), 0u);
}

TEST_F(CapturesTest, StartARankAtOnceThatArmsAfterTheStart) {
  Arm("c", {kA, kB});
  Client(kA, ring::ClientState::kArmed);
  Start("c");
  EXPECT_EQ(ports_.starts.count(kB), 0u);
  Client(kB, ring::ClientState::kArmed);
  ASSERT_EQ(ports_.starts[kB].size(), 1u);
  EXPECT_EQ(ports_.starts[kB][0].t0_realtime_ns, ports_.starts[kA][0].t0_realtime_ns);
}

TEST_F(CapturesTest, EndWhenTheStartNeverComes) {
  Arm("c", {kA}, Nanos::Seconds(5));
  Client(kA, ring::ClientState::kArmed);
  Pass(Nanos::Seconds(124));
  EXPECT_EQ(Last(kA).state(), v1::RankState::ARMED);
  Pass(Nanos::Seconds(2));
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  Drained();
  EXPECT_FALSE(captures_.Busy());
}

TEST_F(CapturesTest, EndWhenARankNeverSaysThatItIsDone) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  Start("c", Nanos(), Nanos::Seconds(2));
  Client(kA, ring::ClientState::kCapturing);
  Pass(Nanos::Seconds(16));
  EXPECT_EQ(Last(kA).state(), v1::RankState::CAPTURING);
  Pass(Nanos::Seconds(2));
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  ASSERT_EQ(ports_.ended.size(), 1u);  // what it recorded is kept
  Client(kA, ring::ClientState::kDone);
  EXPECT_EQ(ports_.ended.size(), 1u);
}

TEST_F(CapturesTest, KeepWhatADeadRankRecordedInEachState) {
  const auto die_in = [&](int states, const char* expected) {
    const std::string id = std::string("c-") + expected;
    Arm(id, {kA});
    if (states > 0) Client(kA, ring::ClientState::kArmed);
    if (states > 1) Start(id);
    if (states > 2) Client(kA, ring::ClientState::kCapturing);
    captures_.OnClientGone(kA, "the process ended");
    EXPECT_EQ(Last(kA).state(), v1::RankState::GONE);
    EXPECT_EQ(Last(kA).text(), std::string("the process ended while ") + expected);
    EXPECT_EQ(ports_.ended.size(), 1u);
    Drained();
    EXPECT_FALSE(captures_.Busy());
  };
  die_in(0, "arming");
  die_in(1, "armed");
  die_in(2, "starting");
  die_in(3, "capturing");
}

TEST_F(CapturesTest, EndOnceWhenARankDiesAfterItWasDone) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  Start("c");
  Client(kA, ring::ClientState::kDone);
  captures_.OnClientGone(kA, "the process ended");
  EXPECT_EQ(ports_.ended.size(), 1u);
  EXPECT_EQ(Last(kA).state(), v1::RankState::DONE);
}

TEST_F(CapturesTest, PassOnTheClientsOwnReason) {
  Arm("c", {kA, kB});
  Client(kA, ring::ClientState::kFailed, "CUPTI is held by nsys");
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  EXPECT_EQ(Last(kA).text(), "CUPTI is held by nsys");
  Client(kB, ring::ClientState::kFailed, "bad \x1b[31m bytes \xff");
  EXPECT_EQ(Last(kB).text(), "bad ?[31m bytes ?");
}

TEST_F(CapturesTest, IgnoreAnswersThatDoNotBelong) {
  Arm("c", {kA});
  ring::State stranger{};
  stranger.capture = 999;
  stranger.state = ring::ClientState::kArmed;
  captures_.OnClientState(kA, stranger);
  captures_.OnClientState(kB, stranger);
  Client(kA, ring::ClientState::kCapturing);  // before it was armed
  Client(kA, ring::ClientState::kDone);
  Client(kA, static_cast<ring::ClientState>(77));
  EXPECT_EQ(ports_.states[kA].size(), 1u);
  EXPECT_EQ(Last(kA).state(), v1::RankState::SEEN);
}

TEST_F(CapturesTest, ARankIsInOneAtATime) {
  Arm("first", {kA});
  Arm("second", {kA, kB});
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  EXPECT_NE(Last(kA).text().find("first"), std::string::npos);
  EXPECT_EQ(ports_.sent_ends, std::multiset<ProcessId>{kA});
  EXPECT_EQ(Last(kB).state(), v1::RankState::SEEN);
  EXPECT_EQ(ports_.arms[kA].size(), 1u);
}

TEST_F(CapturesTest, AnArmThatComesTwiceArmsOnce) {
  Arm("c", {kA});
  Arm("c", {kA});
  EXPECT_EQ(ports_.arms[kA].size(), 1u);
}

TEST_F(CapturesTest, RefuseAWindowThatCannotBe) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  Start("c", Nanos(), Nanos::Seconds(-1));
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  EXPECT_EQ(ports_.starts.count(kA), 0u);
  Drained();
  Arm("d", {kA});
  Client(kA, ring::ClientState::kArmed);
  Start("d", Nanos::Seconds(1'000'000));
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
}

TEST_F(CapturesTest, AStopEndsTheWindowAndKeepsWhatThereIs) {
  Arm("c", {kA, kB});
  Client(kA, ring::ClientState::kArmed);
  Start("c", Nanos(), Nanos::Seconds(60));
  Client(kA, ring::ClientState::kCapturing);
  clock_.Advance(Nanos::Seconds(3));
  Stop("c", StopMode::kKeep);
  ASSERT_EQ(ports_.stops[kA].size(), 1u);
  EXPECT_EQ(ports_.stops[kA][0].abort, 0u);
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
  Client(kA, ring::ClientState::kDone);
  EXPECT_EQ(Last(kA).state(), v1::RankState::DONE);
  EXPECT_EQ(ports_.ended.back().window.length(), Nanos::Seconds(3));
}

TEST_F(CapturesTest, AStopEndsInTimeThoughTheRankDoesNotAnswer) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  Start("c", Nanos(), Nanos::Seconds(600));
  Stop("c", StopMode::kKeep);
  Pass(Nanos::Seconds(15));
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
}

TEST_F(CapturesTest, AnAbortKeepsNothing) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  Start("c");
  Stop("c", StopMode::kAbort);
  EXPECT_TRUE(ports_.abandoned.count(kA));
  EXPECT_TRUE(ports_.ended.empty());
  EXPECT_FALSE(captures_.Busy());
  EXPECT_EQ(ports_.stops[kA].back().abort, 1u);
}

TEST_F(CapturesTest, WhatARankWroteWhileAbortingDoesNotReachTheNextCapture) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  EXPECT_FALSE(ports_.restarted.count(kA));
  Stop("c", StopMode::kAbort);
  Arm("d", {kA});
  EXPECT_FALSE(ports_.restarted.count(kA));
  Client(kA, ring::ClientState::kArmed);
  EXPECT_TRUE(ports_.restarted.count(kA));
}

TEST_F(CapturesTest, EndWhenADialledAggregatorGoes) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  captures_.OnUplinkGone(kUplink);
  EXPECT_TRUE(ports_.abandoned.count(kA));
  EXPECT_FALSE(captures_.Busy());
  EXPECT_FALSE(captures_.NextDeadline().has_value());
}

TEST_F(CapturesTest, TellAReturningAggregatorHowThingsAreAndWere) {
  Arm("c", {kA, kB});
  Client(kA, ring::ClientState::kArmed);
  captures_.OnClientGone(kB, "the process ended");
  Drained();
  ports_.states.clear();
  captures_.OnUplinkBack(kUplink);
  EXPECT_EQ(Last(kA).state(), v1::RankState::ARMED);
  EXPECT_EQ(Last(kB).state(), v1::RankState::GONE);
  captures_.OnClientGone(kA, "the process ended");
  Drained();
  ports_.states.clear();
  captures_.OnUplinkBack(kUplink);
  EXPECT_EQ(Last(kA).state(), v1::RankState::GONE);  // although the capture has ended
  Pass(Nanos::Seconds(61));
  ports_.states.clear();
  captures_.OnUplinkBack(kUplink);
  EXPECT_TRUE(ports_.states.empty());
}

TEST_F(CapturesTest, ARankThatTakesNoMessagesIsGone) {
  ports_.deaf = {kA};
  Arm("c", {kA, kB});
  EXPECT_EQ(Last(kA).state(), v1::RankState::GONE);
  Client(kB, ring::ClientState::kArmed);
  ports_.deaf = {kB};
  Start("c");
  EXPECT_EQ(Last(kB).state(), v1::RankState::GONE);
  Drained();
  EXPECT_FALSE(captures_.Busy());
}

TEST_F(CapturesTest, AnAggregatorMayHaveOnlySoMany) {
  ports_.here = {};
  for (int i = 0; i < 1000; ++i) Arm("c" + std::to_string(i), {kA});
  EXPECT_LE(captures_.Status().size(), CaptureLimits().most_captures);
  // Those that run are not pushed out.
  Pass(Nanos::Seconds(61));
  for (size_t i = 0; i < CaptureLimits().most_captures; ++i) {
    const ProcessId process{static_cast<int32_t>(100 + i), 1};
    ports_.here.insert(process);
    Arm("running" + std::to_string(i), {process});
  }
  ports_.here.insert(kB);
  Arm("one more", {kB});
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
  EXPECT_EQ(ports_.arms.count(kB), 0u);
}

TEST_F(CapturesTest, PassOverMoreProcessesThanThereCanBe) {
  ports_.here = {};
  std::vector<ProcessId> many;
  for (int32_t i = 1; i <= 10'000; ++i) many.push_back({i, 1});
  Arm("c", many);
  EXPECT_EQ(ports_.states.size(), 4096u);
}

TEST_F(CapturesTest, AllEndWhenTheDaemonEnds) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  Start("c", Nanos(), Nanos::Seconds(60));
  Arm("d", {kB});
  captures_.StopAll();
  EXPECT_EQ(ports_.stops[kA].back().abort, 0u);
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
}

class KinetoInCapturesTest : public CapturesTest {
 protected:
  void ArmThroughKineto(std::vector<ProcessId> all, std::vector<ProcessId> through_kineto) {
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

TEST_F(KinetoInCapturesTest, AClientThatFindsCuptiHeldGivesWayToTheProfiler) {
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
  // Of its profiler, that cannot be helped a second time.
  Held(kB);
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
}

TEST_F(KinetoInCapturesTest, AHeldClientStaysFailedWhereThatWasNotAllowed) {
  ArmThroughKineto({kA}, {});
  Held(kA);
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  EXPECT_EQ(Last(kA).refusal(), v1::RankState::HELD);
  EXPECT_EQ(Last(kA).text(), "CUPTI's subscriber is nsys");
  EXPECT_TRUE(ports_.kineto.empty());
}

TEST_F(KinetoInCapturesTest, AHeldClientStaysFailedWhereNoProfilerAsks) {
  if_held_ = {kA};
  ArmThroughKineto({kA}, {});
  ports_.unreached = {kA};
  Held(kA);
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  EXPECT_FALSE(Last(kA).went_over());
  EXPECT_EQ(ports_.ended.size(), 1u) << "its end is told like any other's";
}

TEST_F(KinetoInCapturesTest, AClientThatFailsForAnotherReasonStaysFailed) {
  if_held_ = {kA};
  ArmThroughKineto({kA}, {});
  Client(kA, ring::ClientState::kFailed, "no CUPTI library was found");
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  EXPECT_EQ(Last(kA).refusal(), v1::RankState::REFUSAL_NONE);
}

TEST_F(KinetoInCapturesTest, AClientThatAnswersAfterTheStartIsTooLateForTheProfiler) {
  if_held_ = {kA, kB};
  ArmThroughKineto({kA, kB}, {});
  Client(kA, ring::ClientState::kArmed);
  Start("c");
  Held(kB);
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
  EXPECT_TRUE(ports_.kineto.empty());
}

TEST_F(KinetoInCapturesTest, AreMembersLikeOthersThatNeedLongerToStart) {
  ArmThroughKineto({kA, kB}, {kB});
  EXPECT_EQ(ports_.kineto, (std::map<ProcessId, uint32_t>{{kB, 5}}));
  Client(kA, ring::ClientState::kArmed);
  Client(kB, ring::ClientState::kArmed);
  EXPECT_EQ(Last(kA).lead_ns(), 0);
  EXPECT_EQ(Last(kB).lead_ns(), Nanos::Seconds(9).ns());
}

TEST_F(KinetoInCapturesTest, SayWhatKeepsThemAndThatTheyLive) {
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

TEST_F(KinetoInCapturesTest, HaveMinutesForTheirTraceWhileClientsHaveSeconds) {
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

TEST_F(KinetoInCapturesTest, AreRefusedWhereThatWayDoesNotLeadToThem) {
  ports_.unreached = {kA, kB};
  ArmThroughKineto({kA, kB}, {kA});
  EXPECT_NE(Last(kA).text().find("on-demand traces"), std::string::npos);
  EXPECT_NE(Last(kB).text().find("--via kineto"), std::string::npos);
  EXPECT_EQ(ports_.sent_ends, (std::multiset<ProcessId>{kA, kB}));
}

TEST_F(KinetoInCapturesTest, CountIterationsWhereStepsAreAskedFor) {
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
  // For who never comes to an end, the profiler's own limit or this one.
  Pass(Nanos::Seconds(320));
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
}

TEST_F(KinetoInCapturesTest, AnIterationByNumberIsTheProfilersOwn) {
  ArmThroughKineto({kA}, {kA});
  Client(kA, ring::ClientState::kArmed);
  StartOn("c", Steps(v1::Trigger::AT_STEP, 5000));
  ASSERT_EQ(ports_.iteration_starts[kA].size(), 1u);
  EXPECT_EQ(ports_.iteration_starts[kA][0].first.first, 5000u);
}

TEST_F(KinetoInCapturesTest, WhatTheProfilerCannotBeginWithIsRefusedByName) {
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

TEST_F(KinetoInCapturesTest, BesideClientsTheyGetAWindowAroundTheStepsThatWereAgreed) {
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
