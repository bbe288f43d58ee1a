#include "daemon/captures/captures.h"

#include <cstring>

#include "daemon/captures/captures_fixture.h"

namespace lockstep::daemon {
namespace {

TEST_F(CapturesTest, PassTheirStatesInOrder) {
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

TEST_F(CapturesTest, AreCountedOnceByOutcome) {
  Arm("whole", {kA});
  Client(kA, ring::ClientState::kArmed);
  EXPECT_EQ(captures_.running(), 1u);
  Start("whole");
  clock_.Advance(Nanos::Seconds(2));
  Client(kA, ring::ClientState::kDone);
  Drained();
  EXPECT_EQ(captures_.running(), 0u);
  ports_.here = {kA};
  Arm("half", {kA, kB});
  Client(kA, ring::ClientState::kArmed);
  Start("half");
  Client(kA, ring::ClientState::kDone);
  Drained();
  Arm("none", {kB});
  Arm("unwanted", {kA});
  Stop("unwanted", StopMode::kAbort);
  // Events after a capture's end do not change the counts.
  Stop("whole", StopMode::kAbort);
  captures_.OnUplinkGone(kUplink);
  const CaptureCounts& counts = captures_.counts();
  EXPECT_EQ(counts.complete, 1u);
  EXPECT_EQ(counts.partial, 1u);
  EXPECT_EQ(counts.failed, 1u);
  EXPECT_EQ(counts.aborted, 1u);
  EXPECT_EQ(counts.processes_done, 2u);
  EXPECT_EQ(counts.processes_gone, 2u);
  EXPECT_EQ(counts.took.count(), 3u);
  EXPECT_EQ(counts.took.sum(), Nanos::Seconds(2));
}

TEST_F(CapturesTest, RefuseUnknownProcesses) {
  ports_.here = {kA};
  Arm("c", {kA, kB});
  EXPECT_EQ(Last(kB).state(), v1::RankState::GONE);
  EXPECT_EQ(ports_.arms.count(kB), 0u);
  EXPECT_TRUE(ports_.ended.empty());
  EXPECT_EQ(ports_.sent_ends, std::multiset<ProcessId>{kB});
}

TEST_F(CapturesTest, EndIfNoRankArms) {
  ports_.here = {};
  Arm("c", {kA, kB});
  EXPECT_FALSE(captures_.Busy());
}

TEST_F(CapturesTest, FailRanksThatDoNotArmInTimeAndContinueWithTheOthers) {
  Arm("c", {kA, kB}, Nanos::Seconds(5));
  Client(kA, ring::ClientState::kArmed);
  Pass(Nanos::Millis(4999));
  EXPECT_EQ(Last(kB).state(), v1::RankState::SEEN);
  Pass(Nanos::Millis(1));
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
  ASSERT_EQ(ports_.stops[kB].size(), 1u);
  EXPECT_EQ(ports_.stops[kB][0].abort, 1u);
  EXPECT_EQ(Last(kA).state(), v1::RankState::ARMED);
  Client(kB, ring::ClientState::kArmed);  // too late: it has received the abort
  EXPECT_EQ(Last(kB).state(), v1::RankState::FAILED);
  Start("c");
  EXPECT_EQ(ports_.starts[kA].size(), 1u);
  EXPECT_EQ(ports_.starts.count(kB), 0u);
}

TEST_F(CapturesTest, StartALateRankAtOnce) {
  Arm("c", {kA, kB});
  Client(kA, ring::ClientState::kArmed);
  Start("c");
  EXPECT_EQ(ports_.starts.count(kB), 0u);
  Client(kB, ring::ClientState::kArmed);
  ASSERT_EQ(ports_.starts[kB].size(), 1u);
  EXPECT_EQ(ports_.starts[kB][0].t0_realtime_ns, ports_.starts[kA][0].t0_realtime_ns);
}

TEST_F(CapturesTest, EndWithoutAStart) {
  Arm("c", {kA}, Nanos::Seconds(5));
  Client(kA, ring::ClientState::kArmed);
  Pass(Nanos::Seconds(124));
  EXPECT_EQ(Last(kA).state(), v1::RankState::ARMED);
  Pass(Nanos::Seconds(2));
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  Drained();
  EXPECT_FALSE(captures_.Busy());
}

TEST_F(CapturesTest, EndIfARankNeverReportsDone) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  Start("c", Nanos(), Nanos::Seconds(2));
  Client(kA, ring::ClientState::kCapturing);
  Pass(Nanos::Seconds(16));
  EXPECT_EQ(Last(kA).state(), v1::RankState::CAPTURING);
  Pass(Nanos::Seconds(2));
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  ASSERT_EQ(ports_.ended.size(), 1u);  // its records are kept
  Client(kA, ring::ClientState::kDone);
  EXPECT_EQ(ports_.ended.size(), 1u);
}

TEST_F(CapturesTest, KeepTheRecordsOfADeadRankInEachState) {
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

TEST_F(CapturesTest, EndOnceIfARankDiesAfterDone) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  Start("c");
  Client(kA, ring::ClientState::kDone);
  captures_.OnClientGone(kA, "the process ended");
  EXPECT_EQ(ports_.ended.size(), 1u);
  EXPECT_EQ(Last(kA).state(), v1::RankState::DONE);
}

TEST_F(CapturesTest, ForwardTheClientsReason) {
  Arm("c", {kA, kB});
  Client(kA, ring::ClientState::kFailed, "CUPTI is held by nsys");
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  EXPECT_EQ(Last(kA).text(), "CUPTI is held by nsys");
  Client(kB, ring::ClientState::kFailed, "bad \x1b[31m bytes \xff");
  EXPECT_EQ(Last(kB).text(), "bad ?[31m bytes ?");
}

TEST_F(CapturesTest, IgnoreUnexpectedStates) {
  Arm("c", {kA});
  ring::State unexpected{};
  unexpected.capture = 999;
  unexpected.state = ring::ClientState::kArmed;
  captures_.OnClientState(kA, unexpected);
  captures_.OnClientState(kB, unexpected);
  Client(kA, ring::ClientState::kCapturing);  // before it was armed
  Client(kA, ring::ClientState::kDone);
  Client(kA, static_cast<ring::ClientState>(77));
  EXPECT_EQ(ports_.states[kA].size(), 1u);
  EXPECT_EQ(Last(kA).state(), v1::RankState::SEEN);
}

TEST_F(CapturesTest, ARankIsInOneCaptureAtATime) {
  Arm("first", {kA});
  Arm("second", {kA, kB});
  EXPECT_EQ(Last(kA).state(), v1::RankState::FAILED);
  EXPECT_NE(Last(kA).text().find("first"), std::string::npos);
  EXPECT_EQ(ports_.sent_ends, std::multiset<ProcessId>{kA});
  EXPECT_EQ(Last(kB).state(), v1::RankState::SEEN);
  EXPECT_EQ(ports_.arms[kA].size(), 1u);
}

TEST_F(CapturesTest, ARepeatedArmArmsOnce) {
  Arm("c", {kA});
  Arm("c", {kA});
  EXPECT_EQ(ports_.arms[kA].size(), 1u);
}

TEST_F(CapturesTest, RefuseAnInvalidWindow) {
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

TEST_F(CapturesTest, AStopEndsTheWindowAndKeepsTheRecords) {
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
  EXPECT_EQ(Last(kA).cut(), "") << "the aggregator requested it";
}

TEST_F(CapturesTest, AStopEndsInTimeIfTheRankDoesNotAnswer) {
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

TEST_F(CapturesTest, RecordsWrittenDuringAnAbortDoNotReachTheNextCapture) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  EXPECT_FALSE(ports_.restarted.count(kA));
  Stop("c", StopMode::kAbort);
  Arm("d", {kA});
  EXPECT_FALSE(ports_.restarted.count(kA));
  Client(kA, ring::ClientState::kArmed);
  EXPECT_TRUE(ports_.restarted.count(kA));
}

TEST_F(CapturesTest, EndWhenADialledAggregatorDisconnects) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  captures_.OnUplinkGone(kUplink);
  EXPECT_TRUE(ports_.abandoned.count(kA));
  EXPECT_FALSE(captures_.Busy());
  EXPECT_FALSE(captures_.NextDeadline().has_value());
}

TEST_F(CapturesTest, SendAReturningAggregatorCurrentAndEndedStates) {
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

TEST_F(CapturesTest, ARankThatDoesNotAcceptMessagesIsGone) {
  ports_.unresponsive = {kA};
  Arm("c", {kA, kB});
  EXPECT_EQ(Last(kA).state(), v1::RankState::GONE);
  Client(kB, ring::ClientState::kArmed);
  ports_.unresponsive = {kB};
  Start("c");
  EXPECT_EQ(Last(kB).state(), v1::RankState::GONE);
  Drained();
  EXPECT_FALSE(captures_.Busy());
}

TEST_F(CapturesTest, AreLimitedPerAggregator) {
  ports_.here = {};
  for (int i = 0; i < 1000; ++i) Arm("c" + std::to_string(i), {kA});
  EXPECT_LE(captures_.Status().size(), CaptureLimits().most_captures);
  // Running captures are not evicted.
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

TEST_F(CapturesTest, IgnoreProcessesBeyondTheLimit) {
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
  Client(kA, ring::ClientState::kCapturing);
  Client(kA, ring::ClientState::kDone);
  EXPECT_EQ(Last(kA).state(), v1::RankState::DONE);
  EXPECT_EQ(Last(kA).cut(), "its daemon was stopped inside the window");
}

TEST_F(CapturesTest, AWindowThatHadPassedIsNotCutByTheDaemonsEnd) {
  Arm("c", {kA});
  Client(kA, ring::ClientState::kArmed);
  Start("c", Nanos(), Nanos::Seconds(60));
  Client(kA, ring::ClientState::kCapturing);
  clock_.Advance(Nanos::Seconds(60));
  captures_.StopAll();
  Client(kA, ring::ClientState::kDone);
  EXPECT_EQ(Last(kA).cut(), "");
}

}  // namespace
}  // namespace lockstep::daemon
