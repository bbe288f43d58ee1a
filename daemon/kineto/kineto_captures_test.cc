#include "daemon/kineto/kineto_captures.h"

#include "base/log/clean_text.h"
#include "daemon/node/clock_fake.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

using ::testing::HasSubstr;

constexpr ProcessId kKinetoA{10, 1};
constexpr Nanos kInterval = Nanos::Seconds(5);

struct FakeKinetoCapturePorts final : KinetoPorts {
  void Offer(const ProcessId& p, std::string config) override { offers[p] = std::move(config); }
  void Withdraw(const ProcessId& p) override { offers.erase(p); }
  KinetoFileId WatchFile(KinetoFileSpec spec) override {
    specs.push_back(std::move(spec));
    return {0, 0, specs.size()};
  }
  void DiscardFile(const KinetoFileId& file, MonoTime) override { discarded.push_back(file.number); }
  void SendState(const ProcessId&, const ring::State& state) override { states.push_back(state); }

  std::map<ProcessId, std::string> offers;
  std::vector<KinetoFileSpec> specs;
  std::vector<uint64_t> discarded;
  std::vector<ring::State> states;
};

class KinetoCapturesTest : public testing::Test {
 protected:
  enum class Is { kIdle, kBusy };
  enum class Version { kNew, kOld };

  // Passes on a poll as KinetoServer and KinetoProcesses would, with the answer that the process got.
  void Poll(Is is, Version version = Version::kNew) {
    KinetoPoll poll;
    poll.process = kKinetoA;
    poll.at = clock_.Monotonic();
    poll.polls = 1;
    poll.idle = is == Is::kIdle || version == Version::kOld;
    poll.busy = !poll.idle;
    poll.reports_busy = version == Version::kNew;
    poll.offered = poll.idle && ports_.offers.count(kKinetoA) != 0;
    captures_.OnPoll(poll);
  }
  void Arm() {
    KinetoClient client;
    client.last.process = kKinetoA;
    client.last.at = clock_.Monotonic();
    client.last.idle = true;
    client.interval = kInterval;
    client.client_pid = 7;
    client.folder = "/tmp";
    captures_.Choose(kKinetoA, client, "session", 0);
    ring::Arm arm{};
    arm.capture = 3;
    arm.activities = ring::kDefaultActivities;
    ASSERT_TRUE(captures_.OnArm(kKinetoA, arm));
  }
  void Start(Nanos ahead = Nanos::Seconds(15)) {
    ring::Start start{};
    start.capture = 3;
    start.t0_realtime_ns = (clock_.Realtime() + ahead).ns();
    start.t1_realtime_ns = (clock_.Realtime() + ahead + Nanos::Seconds(2)).ns();
    ASSERT_TRUE(captures_.OnStart(kKinetoA, start));
  }
  void Stop(uint32_t abort) {
    ring::Stop stop{};
    stop.abort = abort;
    captures_.OnStop(kKinetoA, stop);
  }
  // Advances the clock and runs Tick at each deadline.
  void Pass(Nanos time) {
    const MonoTime until = clock_.Monotonic() + time;
    while (true) {
      const auto next = captures_.NextDeadline();
      if (!next || *next > until) break;
      clock_.Advance(std::max(*next - clock_.Monotonic(), Nanos()));
      captures_.Tick();
    }
    clock_.Advance(until - clock_.Monotonic());
    captures_.Tick();
  }
  ring::ClientState Last() const { return ports_.states.back().state; }
  std::string LastText() const { return FieldText(ports_.states.back().text); }

  FakeClock clock_;
  FakeKinetoCapturePorts ports_;
  KinetoCaptures captures_{clock_, ports_};
};

TEST_F(KinetoCapturesTest, ReportsStatesInOrder) {
  Arm();
  EXPECT_EQ(Last(), ring::ClientState::kArmed);
  EXPECT_EQ(ports_.states.back().capture, 3u);
  Start();
  EXPECT_THAT(ports_.offers.at(kKinetoA), HasSubstr("ACTIVITIES_LOG_FILE=/tmp/lockstep_session.json\n"));
  ASSERT_EQ(ports_.specs.size(), 1u);
  EXPECT_EQ(ports_.specs[0].client_pid, 7);
  Pass(Nanos::Seconds(3));
  Poll(Is::kIdle);
  EXPECT_EQ(ports_.offers.count(kKinetoA), 1u) << "a delivered request is not taken yet";
  Pass(Nanos::Seconds(5));
  Poll(Is::kBusy);
  EXPECT_EQ(ports_.offers.count(kKinetoA), 0u);
  EXPECT_EQ(Last(), ring::ClientState::kArmed) << "the window has not begun";
  Pass(Nanos::Seconds(8));
  EXPECT_EQ(Last(), ring::ClientState::kCapturing);
  captures_.OnFile(kKinetoA, 1, KinetoFileStage::kWriting);
  EXPECT_EQ(Last(), ring::ClientState::kCapturing);
  captures_.OnFile(kKinetoA, 1, KinetoFileStage::kWhole);
  EXPECT_EQ(Last(), ring::ClientState::kDone);
  const auto taken = captures_.Take(kKinetoA);
  EXPECT_EQ(taken.file.number, 1u);
  EXPECT_TRUE(taken.whole);
  EXPECT_FALSE(captures_.Holds(kKinetoA));
}

TEST_F(KinetoCapturesTest, OffersARequestUntilItIsTaken) {
  Arm();
  Start();
  for (int i = 0; i < 2; ++i) {
    Pass(Nanos::Seconds(4));
    Poll(Is::kIdle);
    EXPECT_EQ(ports_.offers.count(kKinetoA), 1u) << "its answer may have come too late for it";
  }
  // After this time it could not warm up before T0.
  Pass(Nanos::Seconds(2));
  EXPECT_EQ(ports_.offers.count(kKinetoA), 0u);
}

TEST_F(KinetoCapturesTest, TheStartLeavesTimeForTwoPollsAndTheWarmUp) {
  Arm();
  EXPECT_EQ(captures_.Lead(kKinetoA), Nanos::Seconds(15)) << "5 s apart: no more than the longest";
  KinetoClient quick;
  quick.interval = Nanos::Millis(500);
  captures_.Choose(kKinetoA, quick, "s", 0);
  EXPECT_EQ(captures_.Lead(kKinetoA), Nanos::Seconds(8));
  captures_.Choose(kKinetoA, KinetoClient{}, "s", 0);
  EXPECT_EQ(captures_.Lead(kKinetoA), Nanos::Seconds(15)) << "its poll interval is unknown";
}

TEST_F(KinetoCapturesTest, AClientWithoutARecentPollIsArmedAtItsNextPoll) {
  KinetoClient client;
  client.last.at = clock_.Monotonic();
  client.last.idle = true;
  client.interval = kInterval;
  clock_.Advance(Nanos::Seconds(20));
  captures_.Choose(kKinetoA, client, "session", 0);
  ring::Arm arm{};
  captures_.OnArm(kKinetoA, arm);
  EXPECT_TRUE(ports_.states.empty());
  Poll(Is::kBusy);
  EXPECT_EQ(Last(), ring::ClientState::kIdle);
  EXPECT_THAT(LastText(), HasSubstr("torch.profiler"));
  Poll(Is::kIdle);
  EXPECT_EQ(Last(), ring::ClientState::kArmed);
}

TEST_F(KinetoCapturesTest, AClientThatNeverPollsFailsBeforeTheWindow) {
  Arm();
  Start();
  Pass(Nanos::Seconds(10));
  EXPECT_EQ(Last(), ring::ClientState::kFailed);
  EXPECT_THAT(LastText(), HasSubstr("did not poll"));
  EXPECT_EQ(ports_.offers.count(kKinetoA), 0u);
}

TEST_F(KinetoCapturesTest, ABusyClientFailsWithThatReason) {
  Arm();
  Start();
  Pass(Nanos::Seconds(4));
  Poll(Is::kBusy);
  EXPECT_EQ(ports_.offers.count(kKinetoA), 1u)
      << "it did not receive the request, so this is not its acknowledgement";
  Pass(Nanos::Seconds(6));
  EXPECT_EQ(Last(), ring::ClientState::kFailed);
  EXPECT_THAT(LastText(), HasSubstr("torch.profiler"));
}

TEST_F(KinetoCapturesTest, ReportsADroppedRequestSoonAfterTheStart) {
  Arm();
  Start();
  Pass(Nanos::Seconds(4));
  Poll(Is::kIdle);
  Pass(Nanos::Seconds(12));
  Poll(Is::kIdle);
  EXPECT_NE(Last(), ring::ClientState::kFailed) << "once may be by chance";
  Pass(Nanos::Seconds(5));
  Poll(Is::kIdle);
  EXPECT_EQ(Last(), ring::ClientState::kFailed);
  EXPECT_THAT(LastText(), HasSubstr("dropped it"));
}

TEST_F(KinetoCapturesTest, AnOldClientWithoutABusyStateIsDetectedByItsFile) {
  Arm();
  Start();
  for (int i = 0; i < 5; ++i) {
    Pass(Nanos::Seconds(4));
    Poll(Is::kIdle, Version::kOld);
  }
  EXPECT_NE(Last(), ring::ClientState::kFailed);
  captures_.OnFile(kKinetoA, 1, KinetoFileStage::kWriting);
  EXPECT_EQ(Last(), ring::ClientState::kCapturing);
  captures_.OnFile(kKinetoA, 1, KinetoFileStage::kWhole);
  EXPECT_EQ(Last(), ring::ClientState::kDone);
}

TEST_F(KinetoCapturesTest, ReportsProgressWhileItWaitsForTheFile) {
  Arm();
  Start();
  Poll(Is::kIdle);
  Poll(Is::kBusy);
  Pass(Nanos::Seconds(17));
  const size_t before = ports_.states.size();
  for (int i = 0; i < 10; ++i) {
    Pass(Nanos::Seconds(3));
    Poll(Is::kBusy);
  }
  EXPECT_GE(ports_.states.size(), before + 9);
  EXPECT_EQ(Last(), ring::ClientState::kCapturing);
  EXPECT_THAT(LastText(), HasSubstr("writes"));
}

TEST_F(KinetoCapturesTest, DoesNotWaitForAProfilerThatEndsWithoutAFile) {
  Arm();
  Start();
  Poll(Is::kIdle);
  Poll(Is::kBusy);
  Pass(Nanos::Seconds(20));
  for (int i = 0; i < 4; ++i) {
    EXPECT_NE(Last(), ring::ClientState::kFailed);
    Poll(Is::kIdle);
    Pass(Nanos::Seconds(5));
  }
  Poll(Is::kIdle);
  EXPECT_EQ(Last(), ring::ClientState::kFailed);
  EXPECT_THAT(LastText(), HasSubstr("/tmp/lockstep_session_7.json"));
}

TEST_F(KinetoCapturesTest, AStopBeforeThePollWithdrawsTheRequest) {
  Arm();
  Start();
  Stop(0);
  EXPECT_EQ(Last(), ring::ClientState::kFailed);
  EXPECT_EQ(ports_.offers.count(kKinetoA), 0u);
}

TEST_F(KinetoCapturesTest, AStopAfterThePollKeepsTheFile) {
  Arm();
  Start();
  Poll(Is::kIdle);
  Poll(Is::kBusy);
  Stop(0);
  Pass(Nanos::Seconds(18));
  captures_.OnFile(kKinetoA, 1, KinetoFileStage::kWhole);
  EXPECT_EQ(Last(), ring::ClientState::kDone);
}

TEST_F(KinetoCapturesTest, RemovesAnAbandonedFileWhenItAppears) {
  Arm();
  Start();
  Poll(Is::kIdle);
  Stop(1);
  captures_.Forget(kKinetoA);
  EXPECT_EQ(ports_.discarded, (std::vector<uint64_t>{1}));
  EXPECT_FALSE(captures_.Holds(kKinetoA));
  EXPECT_FALSE(captures_.OnStop(kKinetoA, ring::Stop{}));
}

TEST_F(KinetoCapturesTest, IgnoresAFileOfAnEarlierCapture) {
  Arm();
  Start();
  captures_.OnFile(kKinetoA, 99, KinetoFileStage::kWhole);
  EXPECT_EQ(Last(), ring::ClientState::kArmed);
}

TEST_F(KinetoCapturesTest, AnInvalidFolderFailsOnlyThatRank) {
  KinetoClient client;
  client.last.at = clock_.Monotonic();
  client.last.idle = true;
  client.folder = "/scratch/run=3";
  captures_.Choose(kKinetoA, client, "session", 0);
  captures_.OnArm(kKinetoA, ring::Arm{});
  Start();
  EXPECT_EQ(Last(), ring::ClientState::kFailed);
  EXPECT_THAT(LastText(), HasSubstr("KINETO_ONDEMAND_TRACE_DIR"));
}

class KinetoIterationsTest : public KinetoCapturesTest {
 protected:
  void StartIterations(std::optional<uint64_t> first = std::nullopt) {
    ASSERT_TRUE(captures_.OnStartIterations(kKinetoA, {.first = first, .multiple = 100, .count = 5},
                                            clock_.Realtime() + Nanos::Seconds(60)));
  }
};

TEST_F(KinetoIterationsTest, AreOfferedOnceAndWaitedFor) {
  Arm();
  StartIterations();
  EXPECT_THAT(ports_.offers.at(kKinetoA), HasSubstr("PROFILE_START_ITERATION_ROUNDUP=100\n"));
  Pass(Nanos::Seconds(3));
  Poll(Is::kIdle);
  EXPECT_EQ(ports_.offers.count(kKinetoA), 0u)
      << "a profiler that waits calls itself idle, and would take a second one for a new one";
  EXPECT_EQ(Last(), ring::ClientState::kWaiting);
  const int64_t delivered_ns = clock_.Realtime().ns();
  for (int i = 0; i < 4; ++i) {
    Pass(Nanos::Seconds(5));
    Poll(Is::kIdle);
  }
  EXPECT_EQ(Last(), ring::ClientState::kWaiting);
  Poll(Is::kBusy);
  EXPECT_EQ(Last(), ring::ClientState::kCapturing);
  Pass(Nanos::Seconds(1));
  captures_.OnFile(kKinetoA, 1, KinetoFileStage::kWriting);
  const int64_t written = clock_.Realtime().ns();
  Pass(Nanos::Seconds(1));
  captures_.OnFile(kKinetoA, 1, KinetoFileStage::kWhole);
  EXPECT_EQ(Last(), ring::ClientState::kDone);
  EXPECT_EQ(ports_.states.back().t0_realtime_ns, delivered_ns);
  EXPECT_EQ(ports_.states.back().t1_realtime_ns, written);
}

TEST_F(KinetoIterationsTest, MayPassBetweenTwoPolls) {
  Arm();
  StartIterations(5000);
  EXPECT_THAT(ports_.offers.at(kKinetoA), HasSubstr("PROFILE_START_ITERATION=5000\n"));
  Poll(Is::kIdle);
  captures_.OnFile(kKinetoA, 1, KinetoFileStage::kWhole);
  EXPECT_EQ(Last(), ring::ClientState::kDone);
  EXPECT_TRUE(captures_.Take(kKinetoA).whole);
}

TEST_F(KinetoIterationsTest, HaveATimeoutIfTheJobCountsNone) {
  Arm();
  StartIterations();
  Poll(Is::kIdle);
  for (int i = 0; i < 11; ++i) {
    Pass(Nanos::Seconds(5));
    Poll(Is::kIdle);
  }
  EXPECT_EQ(Last(), ring::ClientState::kWaiting);
  Pass(Nanos::Seconds(6));
  EXPECT_EQ(Last(), ring::ClientState::kFailed);
  EXPECT_THAT(LastText(), HasSubstr("multiple of 100 iterations"));
  EXPECT_THAT(LastText(), HasSubstr("--duration"));
  // Its profiler still has the request and may write a file, which is then unwanted.
  EXPECT_GE(captures_.Take(kKinetoA).until - clock_.Monotonic(), Nanos::Seconds(600));
}

TEST_F(KinetoIterationsTest, AClientThatNeverPollsFails) {
  Arm();
  StartIterations();
  Pass(Nanos::Seconds(61));
  EXPECT_EQ(Last(), ring::ClientState::kFailed);
  EXPECT_THAT(LastText(), HasSubstr("did not poll"));
}

TEST_F(KinetoIterationsTest, AStopWhileWaitingKeepsNothing) {
  Arm();
  StartIterations();
  Poll(Is::kIdle);
  Stop(0);
  EXPECT_EQ(Last(), ring::ClientState::kFailed);
  EXPECT_THAT(LastText(), HasSubstr("stopped"));
}

}  // namespace
}  // namespace lockstep::daemon
