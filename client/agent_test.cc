// Tests the agent between a fake CUPTI and a fake daemon: the life of a capture from the first message to the
// daemon until the end of the process.
#include "client/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "client/agent_fixture.h"
#include "tests/abi/support/emulation.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using ring::ClientState;
using ring::RecordKind;

TEST_F(AgentTest, IdentifiesItselfFromItsEnvironment) {
  ::setenv("OMPI_COMM_WORLD_RANK", "5", 1);
  ::setenv("SLURM_JOB_ID", "line\nbreak", 1);
  StartThread();
  ASSERT_TRUE(daemon_.AcceptHello());
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::unsetenv("SLURM_JOB_ID");
  EXPECT_EQ(daemon_.hello.layout_major, ring::kLayoutMajor);
  EXPECT_EQ(daemon_.hello.claimed_pid, ::getpid());
  EXPECT_GT(daemon_.hello.process_start_ticks, 0u);
  const std::string identity = daemon_.hello.identity;
  EXPECT_NE(("\n" + identity).find("\nOMPI_COMM_WORLD_RANK=5\n"), std::string::npos) << identity;
  EXPECT_EQ(identity.find("SLURM_JOB_ID"), std::string::npos) << "a value could pass for another variable";
  EXPECT_THAT(std::string(daemon_.hello.program),
              testing::HasSubstr(IsEmulated() ? "qemu" : "lockstep_client"));
}

std::atomic<bool> g_has_context{false};

class AgentWithoutContextTest : public AgentTest {
 protected:
  AgentWithoutContextTest() {
    g_has_context = false;
    agent_->SetOptions({.context_up = [] { return g_has_context.load(); }});
  }
};

TEST_F(AgentWithoutContextTest, IsPresentAndBecomesARankOnTheSameConnection) {
  StartThread();
  ASSERT_TRUE(daemon_.AcceptPresence());
  EXPECT_EQ(daemon_.presence.claimed_pid, ::getpid());
  EXPECT_THAT(std::string(daemon_.presence.program),
              testing::HasSubstr(IsEmulated() ? "qemu" : "lockstep_client"));
  EXPECT_FALSE(daemon_.ReceiveHello(100)) << "a launcher would become a rank";
  g_has_context = true;
  ASSERT_TRUE(daemon_.ReceiveHello());
  ASSERT_TRUE(daemon_.WelcomeWithNewSegment());
  ArmAndExpectArmed(17);
}

TEST_F(AgentWithoutContextTest, ADaemonThatDoesNotKnowPresenceGetsTheHelloLater) {
  StartThread();
  ASSERT_TRUE(daemon_.AcceptPresence());
  ASSERT_TRUE(daemon_.RefuseClient("message type 9 is not allowed before the hello"));
  ASSERT_TRUE(daemon_.PeerGone(2000));
  EXPECT_FALSE(daemon_.AcceptPresence(1500)) << "it does not bother the daemon again";
  g_has_context = true;
  ASSERT_TRUE(daemon_.AcceptHello());
}

TEST_F(AgentWithoutContextTest, ADaemonThatStartsLaterLearnsOfIt) {
  StartThread();
  ASSERT_TRUE(daemon_.AcceptPresence());
  daemon_.HangUp();
  ASSERT_TRUE(daemon_.AcceptPresence());
}

TEST_F(AgentWithoutContextTest, RegistersAtOnceIfTheUserSaysSo) {
  agent_->SetOptions(
      {.registration = Registration::kAtOnce, .context_up = [] { return g_has_context.load(); }});
  StartThread();
  ASSERT_TRUE(daemon_.AcceptHello());
}

TEST_F(AgentTest, ACaptureRunsFromArmToDone) {
  ConnectAndWelcome();
  ArmAndExpectArmed(17);
  EXPECT_TRUE(cupti_.Enabled(cupti::ActivityKind::kConcurrentKernel));
  EXPECT_FALSE(cupti_.Enabled(cupti::ActivityKind::kKernel)) << "it would serialise the application";
  EXPECT_FALSE(cupti_.Enabled(cupti::ActivityKind::kDriver)) << "only the launch calls";
  cupti_.Locked([](FakeCupti& f) {
    EXPECT_TRUE(f.driver_on.count(cupti::driver_cbid::kLaunchKernelEx));
    EXPECT_TRUE(f.runtime_off.count(cupti::runtime_cbid::kEventQuery));
    EXPECT_EQ(f.thread_id_type, cupti::ThreadIdType::kSystem);
  });
  cupti_.Emit(MakeKernel(kSystemTiming.realtime().ns(), kSystemTiming.realtime().ns() + 1,
                         1));  // only armed: discarded

  const int64_t t0 = StartWindow(17, Nanos::Millis(200));
  cupti_.Emit(MakeApi(t0 + 1000, t0 + 1100, 2));
  cupti_.Emit(MakeKernel(t0 + 2000, t0 + 3000, 2, "ncclDevKernel_AllReduce"));
  const auto done = daemon_.WaitForState();
  ASSERT_TRUE(done.has_value());
  ASSERT_EQ(done->state, ClientState::kDone);
  EXPECT_EQ(done->capture, 17u);
  EXPECT_EQ(done->outside_window, 1u);

  uint64_t kernels = 0;
  uint64_t clocks = 0;
  uint64_t all = 0;
  for (const auto& record : daemon_.end->Drain()) {
    ++all;
    if (record.header.kind == RecordKind::kKernel) {
      ++kernels;
      EXPECT_EQ(record.as<ring::KernelRecord>().correlation, 2u);
      EXPECT_EQ(daemon_.end->strings[record.as<ring::KernelRecord>().name], "ncclDevKernel_AllReduce");
    }
    if (record.header.kind == RecordKind::kClock) {
      ++clocks;
      const auto clock = record.as<ring::ClockRecord>();
      EXPECT_GT(clock.monotonic_ns, 0);
      EXPECT_GT(clock.tsc, 0u);
      EXPECT_LT(std::abs(clock.cupti_ns - clock.realtime_ns), 1'000'000'000);
    }
  }
  EXPECT_EQ(kernels, 1u);
  EXPECT_GE(clocks, 2u);
  EXPECT_EQ(done->records, all + daemon_.end->string_records);
  EXPECT_EQ(daemon_.end->LostInAll(), 0u);
  // All settings of CUPTI are restored.
  EXPECT_TRUE(cupti_.NothingEnabled());
  cupti_.Locked([](FakeCupti& f) {
    EXPECT_EQ(f.thread_id_type, cupti::ThreadIdType::kDefault);
    EXPECT_TRUE(f.all_sync_records);
  });
}

TEST_F(AgentTest, LaterCapturesAreCompleteAndRestartStrings) {
  ConnectAndWelcome();
  for (uint64_t capture = 1; capture <= 4; ++capture) {
    ASSERT_TRUE(daemon_.Arm(capture, ring::kDefaultActivities, 100 + capture));
    ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kArmed);
    EXPECT_EQ(daemon_.end->segment.header()->epoch.load(), 100 + capture);
    daemon_.end->strings.clear();
    const int64_t t0 = StartWindow(capture, Nanos::Millis(60));
    cupti_.Emit(MakeKernel(t0 + 10, t0 + 20, 7, "same_name"));
    ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
    const auto kernels = daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel);
    ASSERT_EQ(kernels.size(), 1u);
    EXPECT_EQ(daemon_.end->strings[kernels[0].name], "same_name");
  }
}

TEST_F(AgentTest, ReportsItsDelayAfterT0) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t now = kSystemTiming.realtime().ns();
  ASSERT_TRUE(daemon_.Start(1, now - 30'000'000, now + 50'000'000));
  const auto state = daemon_.WaitForState();
  ASSERT_TRUE(state.has_value());
  EXPECT_GE(state->late_ns, 30'000'000);
  EXPECT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
}

TEST_F(AgentTest, AFutureWindowExcludesEarlierRecords) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = kSystemTiming.realtime().ns() + 150'000'000;
  ASSERT_TRUE(daemon_.Start(1, t0, t0 + 50'000'000));
  EXPECT_EQ(daemon_.WaitForState()->late_ns, 0);
  cupti_.Emit(MakeKernel(t0 - 5, t0 + 5, 1));
  cupti_.Emit(MakeKernel(t0 + 5, t0 + 6, 2));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  const auto kernels = daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].correlation, 2u);
}

TEST_F(AgentTest, StopEndsTheWindowEarlyAndKeepsItsRecords) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Seconds(3600));
  cupti_.Emit(MakeKernel(t0 + 10, t0 + 11, 1));
  ASSERT_TRUE(daemon_.Stop(1, 0));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel).size(), 1u);
}

TEST_F(AgentTest, AbortDiscardsTheCaptureAndReturnsToIdle) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  ASSERT_TRUE(daemon_.Stop(1, 1));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kIdle);
  EXPECT_TRUE(cupti_.NothingEnabled());
  EXPECT_EQ(flags_.capture.load(), 0u);
  ArmAndExpectArmed(2);
}

TEST_F(AgentTest, AnExitingProcessFinishesItsCaptureFirst) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Seconds(3600));
  cupti_.Emit(MakeKernel(t0 + 10, t0 + 11, 1));
  agent_->FinishForExit(Nanos::Seconds(3));
  const auto done = daemon_.WaitForState(100);
  ASSERT_EQ(done->state, ClientState::kDone);
  EXPECT_EQ(done->cut, ring::Cut::kProgramEnded);
  EXPECT_EQ(done->t0_realtime_ns, t0);
  EXPECT_LT(done->t1_realtime_ns - t0, Nanos::Seconds(10).ns())
      << "the recorded window, not the requested one";
  EXPECT_EQ(daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel).size(), 1u);
}

TEST_F(AgentTest, AnIdleProcessExitsWithoutWaiting) {
  ConnectAndWelcome();
  const auto before = kSystemTiming.monotonic();
  agent_->FinishForExit(Nanos::Seconds(3));
  EXPECT_LT((kSystemTiming.monotonic() - before).millis(), 50);
}

TEST_F(AgentTest, SleepsWhileIdle) {
  ConnectAndWelcome();
  kSystemTiming.pause(Nanos::Millis(200));
  const uint64_t before = WakeUps();
  kSystemTiming.pause(Nanos::Seconds(2));
  EXPECT_LE(WakeUps() - before, 1u);
}

}  // namespace
}  // namespace lockstep::client
