// Tests failures around a capture: a CUPTI that fails, is too broken or is missing, and a daemon that dies or
// sends invalid messages. The application continues, nothing stays enabled, and the daemon receives a
// sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "client/agent_fixture.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using ring::ClientState;
using ring::RecordKind;

TEST_F(AgentTest, AnErrorWhileArmingIsRolledBack) {
  cupti_.refused_kinds = {cupti::ActivityKind::kSynchronization};
  ConnectAndWelcome();
  ASSERT_TRUE(daemon_.Arm(1));
  auto state = daemon_.WaitForState();
  ASSERT_EQ(state->state, ClientState::kFailed);
  EXPECT_STREQ(state->text, "kind 38: cuptiActivityEnable failed with 21 (CUPTI_ERROR)");
  EXPECT_TRUE(cupti_.NothingEnabled());
  cupti_.Locked([](FakeCupti& f) {
    EXPECT_EQ(f.thread_id_type, cupti::ThreadIdType::kDefault);
    f.refused_kinds.clear();
  });
  ASSERT_TRUE(daemon_.Arm(2));
  state = daemon_.WaitForState();
  EXPECT_EQ(state->state, ClientState::kFailed) << "after a CUPTI error it leaves CUPTI alone";
  EXPECT_EQ(state->capture, 2u);
}

TEST_F(AgentTest, ACuptiWithoutADriverFailsWithASentence) {
  cupti_.fail["cuptiActivityEnable"] = cupti::Result::kUnknown;
  ConnectAndWelcome();
  ASSERT_TRUE(daemon_.Arm(1));
  const auto state = daemon_.WaitForState();
  ASSERT_EQ(state->state, ClientState::kFailed);
  EXPECT_THAT(state->text,
              testing::HasSubstr("999 (CUPTI_ERROR_UNKNOWN): the driver does not work in this process"));
}

TEST_F(AgentTest, ArmsOnceTheDriverIsReady) {
  ConnectAndWelcome();
  uint64_t capture = 1;
  for (const cupti::Result early : {cupti::Result::kNotInitialized, cupti::Result::kUnknown}) {
    cupti_.Locked([&](FakeCupti& f) { f.fail["cuptiActivityEnable"] = early; });
    ASSERT_TRUE(daemon_.Arm(capture++));
    EXPECT_EQ(daemon_.WaitForState()->state, ClientState::kFailed);
    EXPECT_TRUE(cupti_.NothingEnabled());
  }
  cupti_.Locked([](FakeCupti& f) { f.fail.clear(); });
  ArmAndExpectArmed(capture);
}

TEST_F(AgentTest, SaysThatTheGpuMayBeLost) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Millis(150));
  cupti_.Emit(MakeKernel(t0 + 10, t0 + 11, 99));
  cupti_.Locked([](FakeCupti& f) { f.fail["cuptiActivityFlushAll"] = cupti::Result::kUnknown; });
  const auto done = daemon_.WaitForState();
  ASSERT_TRUE(done && done->state == ClientState::kDone);
  EXPECT_EQ(done->cut, ring::Cut::kTaken);
  EXPECT_THAT(done->text,
              testing::HasSubstr("999 in the window, so records are missing: the GPU may be lost"));
  EXPECT_EQ(daemon_.end->Lost(ring::LossReason::kContested, RecordKind::kPad), 1u);
}

TEST_F(AgentTest, NoCuptiFailsWithASentenceButNvtxAloneWorks) {
  reachable_ = nullptr;
  ConnectAndWelcome();
  ASSERT_TRUE(daemon_.Arm(1));
  EXPECT_EQ(daemon_.WaitForState()->state, ClientState::kFailed);
  ArmAndExpectArmed(2, ring::kActivityNvtx);
  StartWindow(2, Nanos::Millis(100));
  capture_->nvtx().Push(nullptr, {"step", 4}, 3);
  capture_->nvtx().Pop(nullptr);
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->DrainOnly<ring::RangeRecord>(RecordKind::kRange).size(), 1u);
}

TEST_F(AgentTest, RefusesAVersionThatDeadlocks) {
  cupti_.version = cupti::kVersion_13_0;
  ConnectAndWelcome();
  ASSERT_TRUE(daemon_.Arm(1));
  const auto state = daemon_.WaitForState();
  ASSERT_EQ(state->state, ClientState::kFailed);
  EXPECT_THAT(state->text, testing::HasSubstr("13.0 Update 1"));
  EXPECT_EQ(state->refusal, ring::Refusal::kNone);
  EXPECT_TRUE(cupti_.NothingEnabled());
}

TEST_F(AgentTest, RefusesACuptiWithAForeignClock) {
  cupti_.now = 123456789;  // the processor's tick counter, as another profiler leaves it behind
  ConnectAndWelcome();
  ASSERT_TRUE(daemon_.Arm(1));
  const auto state = daemon_.WaitForState();
  ASSERT_EQ(state->state, ClientState::kFailed);
  EXPECT_THAT(state->text, testing::HasSubstr("host's clock"));
  EXPECT_EQ(state->refusal, ring::Refusal::kHeld);
  EXPECT_STREQ(state->holder, "a profiler that replaced its clock");
  EXPECT_TRUE(cupti_.NothingEnabled());
}

TEST_F(AgentTest, ArmsAgainOnceTheClockIsTheHosts) {
  cupti_.now = 123456789;
  ConnectAndWelcome();
  ASSERT_TRUE(daemon_.Arm(1));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kFailed);
  cupti_.Locked([](FakeCupti& f) { f.now = 0; });
  ArmAndExpectArmed(2);
}

TEST_F(AgentTest, NamesTheHolderOfAnUnusableCupti) {
  cupti_.Locked([](FakeCupti& f) {
    f.holder = "NVIDIA Nsight Systems";
    f.fail["cuptiActivityRegisterCallbacks"] = cupti::Result::kNotCompatible;
  });
  ConnectAndWelcome();
  ASSERT_TRUE(daemon_.Arm(1));
  const auto state = daemon_.WaitForState();
  ASSERT_EQ(state->state, ClientState::kFailed);
  EXPECT_THAT(state->text, testing::HasSubstr("CUPTI's subscriber in this process is NVIDIA Nsight Systems"));
  EXPECT_EQ(state->refusal, ring::Refusal::kHeld);
  EXPECT_STREQ(state->holder, "NVIDIA Nsight Systems");
  EXPECT_TRUE(cupti_.NothingEnabled());
  // The other tool ends.
  cupti_.Locked([](FakeCupti& f) {
    f.holder.clear();
    f.fail.clear();
  });
  ArmAndExpectArmed(2);
}

TEST_F(AgentTest, UnsubscribesFromCuptiAtOnce) {
  cupti_.Locked(
      [](FakeCupti& f) { f.fail["cuptiActivityRegisterCallbacks"] = cupti::Result::kNotCompatible; });
  ConnectAndWelcome();
  ASSERT_TRUE(daemon_.Arm(1));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kFailed);
  cupti_.Locked([](FakeCupti& f) { EXPECT_EQ(f.subscribed, 0); });
}

TEST_F(AgentTest, ReportsAProfilerThatReplacesTheClockInTheWindow) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Millis(150));
  cupti_.Emit(MakeKernel(t0 + 10, t0 + 11, 99));
  cupti_.Locked([](FakeCupti& f) {
    f.now = 123456789;
    f.holder = "kineto";
  });
  const auto done = daemon_.WaitForState();
  ASSERT_TRUE(done && done->state == ClientState::kDone);
  EXPECT_STREQ(done->text,
               "another profiler replaced CUPTI's clock in the window, so records are missing; CUPTI's "
               "subscriber in this process is kineto");
  EXPECT_EQ(daemon_.end->Lost(ring::LossReason::kContested, RecordKind::kPad), 1u);
}

TEST_F(AgentTest, ConvertsStampsOfTheProcessorsCounter) {
  cupti_.ticks = true;
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Millis(300));
  kSystemTiming.pause(Nanos::Millis(100));
  const int64_t real = kSystemTiming.realtime().ns();
  const auto ticks = static_cast<int64_t>(ReadTicks());
  cupti_.Emit(MakeKernel(ticks, ticks + 1000, 7));
  cupti_.Emit(MakeKernel(real, real + 1000, 8));  // an older CUPTI leaves the device's stamps
  const auto done = daemon_.WaitForState();
  ASSERT_TRUE(done && done->state == ClientState::kDone);
  EXPECT_THAT(done->text, testing::HasSubstr("the stamps were converted, within"));
  const auto kernels = daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_LT(std::abs(kernels[0].start_ns - real), 1'000'000);
  EXPECT_GT(kernels[0].end_ns, kernels[0].start_ns);
  EXPECT_EQ(kernels[1].start_ns, real);
  EXPECT_GE(kernels[0].start_ns, t0);
}

TEST_F(AgentTest, APreparedCuptiIsEnabledBrieflyAndRecordsNothing) {
  static std::atomic<bool> context{false};
  context = false;
  agent_->SetOptions({.prepare = Prepare::kAtFirstContext,
                      .registration = Registration::kAtOnce,
                      .context_up = [] { return context.load(); }});
  ConnectAndWelcome();
  kSystemTiming.pause(Nanos::Millis(50));
  cupti_.Locked(
      [](FakeCupti& f) { EXPECT_EQ(f.calls.count("cuptiActivityEnable"), 0u) << "no context yet"; });
  context = true;
  kSystemTiming.pause(Nanos::Millis(100));
  cupti_.Locked([](FakeCupti& f) {
    EXPECT_EQ(f.calls["cuptiActivityEnable"], 1);
    EXPECT_EQ(f.calls["cuptiActivityDisable"], 1);
    EXPECT_EQ(f.calls.count("cuptiActivityRegisterCallbacks"), 0u);
  });
  EXPECT_TRUE(cupti_.NothingEnabled());
  const uint64_t before = WakeUps();
  kSystemTiming.pause(Nanos::Millis(300));
  EXPECT_LE(WakeUps() - before, 1u) << "asleep again";
  ArmAndExpectArmed(1);
}

class AgentGraphTest : public AgentTest {
 protected:
  // Returns the correlation of a graph's kernel in the process's first capture, from CUPTI 13.0.
  uint32_t CorrelationOfGraphKernel() {
    ConnectAndWelcome();
    kSystemTiming.pause(Nanos::Millis(50));
    ArmAndExpectArmed(1);
    const int64_t t0 = StartWindow(1, Nanos::Millis(50));
    foreign::cupti::Kernel10 kernel = MakeKernel(t0 + 10, t0 + 11, 99);
    kernel.graph_id = 5;
    cupti_.Emit(kernel);
    const auto done = daemon_.WaitForState();
    EXPECT_TRUE(done && done->state == ClientState::kDone);
    const auto kernels = daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel);
    EXPECT_EQ(kernels.size(), 1u);
    return kernels.empty() ? 1 : kernels[0].correlation;
  }
};

TEST_F(AgentGraphTest, TheFirstCaptureKeepsCorrelationsOfGraphs) {
  EXPECT_EQ(CorrelationOfGraphKernel(), 99u);
}

TEST_F(AgentGraphTest, PreparingCountsAsTheFirstCapture) {
  agent_->SetOptions({.prepare = Prepare::kAtFirstContext});
  EXPECT_EQ(CorrelationOfGraphKernel(), 0u);
}

TEST_F(AgentTest, ADaemonsDeathEndsTheCaptureAndItsSuccessorGivesANewSegment) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Seconds(3600));
  cupti_.Emit(MakeKernel(t0 + 10, t0 + 11, 99));
  cupti_.GiveBack();
  daemon_.HangUp();
  const auto before = kSystemTiming.monotonic();
  ASSERT_TRUE(daemon_.AcceptHello(3000));
  EXPECT_LT((kSystemTiming.monotonic() - before).seconds(), 1.5);
  EXPECT_TRUE(cupti_.NothingEnabled());
  EXPECT_FALSE(daemon_.offered.ok());
  ASSERT_TRUE(daemon_.WelcomeWithNewSegment());
  ArmAndExpectArmed(2);
}

TEST_F(AgentTest, IgnoresForeignAndBrokenMessages) {
  ConnectAndWelcome();
  ASSERT_TRUE(daemon_.SendBytes("x", 1));
  char zeros[64] = {};
  ASSERT_TRUE(daemon_.SendBytes(zeros, sizeof zeros));
  char big[6000] = {};
  ASSERT_TRUE(daemon_.SendBytes(big, sizeof big));
  ring::Arm cut{};
  cut.header = {ring::kHandshakeMagic, ring::MessageType::kArm, 24};
  ASSERT_TRUE(daemon_.SendBytes(&cut, 24));
  ASSERT_TRUE(daemon_.Start(99, 0, 1)) << "of a capture nobody armed";
  ArmAndExpectArmed(1);
}

TEST_F(AgentTest, DoesNotMapAnUnsealedSegment) {
  StartThread();
  ASSERT_TRUE(daemon_.AcceptHello());
  Fd plain(::memfd_create("plain", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(plain.get(), 1 << 20), 0);
  ring::Welcome welcome{};
  welcome.layout_major = ring::kLayoutMajor;
  welcome.segment_bytes = 1 << 20;
  ASSERT_TRUE(daemon_.Send(ring::MessageType::kWelcome, welcome, plain.get()));
  EXPECT_TRUE(daemon_.PeerGone(2000));
}

}  // namespace
}  // namespace lockstep::client
