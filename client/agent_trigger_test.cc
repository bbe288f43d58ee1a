// Tests captures whose window is opened by a step, a range or the profiler API, through the whole client.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "client/agent_fixture.h"
#include "wire/foreign/cupti.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using ring::Begin;
using ring::ClientState;
using ring::End;
using ring::RecordKind;

class AgentTriggerTest : public AgentTest {
 protected:
  void SetUp() override { ConnectAndWelcome(); }

  ring::Start MakeStart(Begin begin, End end, Nanos patience = Nanos::Seconds(20)) {
    ring::Start start{};
    start.capture = 5;
    start.t0_realtime_ns = kSystemTiming.realtime().ns();
    start.t1_realtime_ns = start.t0_realtime_ns + patience.ns();
    start.begin = begin;
    start.end = end;
    return start;
  }
  // Waits for the state `wanted` and returns it, or the last state received.
  ring::State Wait(ClientState wanted) {
    for (int i = 0; i < 20; ++i) {
      const auto state = daemon_.WaitForState();
      if (!state) break;
      if (state->state == wanted) return *state;
      if (state->state == ClientState::kFailed || state->state == ClientState::kDone) {
        ADD_FAILURE() << "ended as " << static_cast<int>(state->state) << ": " << state->text;
        return *state;
      }
    }
    ADD_FAILURE() << "no state " << static_cast<int>(wanted);
    return {};
  }
  void Begins(ring::Start start, uint32_t activities = ring::kDefaultActivities) {
    ArmAndExpectArmed(5, activities);
    ASSERT_TRUE(daemon_.Send(ring::MessageType::kStart, start));
    Wait(ClientState::kWaiting);
  }
  void Step(uint64_t number) {
    const std::string name = "step " + std::to_string(number);
    capture_->nvtx().Push(nullptr, {name.data(), name.size()}, 0);
    kSystemTiming.pause(Nanos::Millis(10));
    capture_->nvtx().Pop(nullptr);
  }
  // Returns the names of the recorded ranges, in order.
  std::vector<std::string> Ranges() {
    std::vector<std::string> names;
    for (const auto& record : daemon_.end->Drain()) {
      if (record.header.kind == RecordKind::kRange)
        names.push_back(daemon_.end->strings[record.as<ring::RangeRecord>().name]);
    }
    return names;
  }
};

TEST_F(AgentTriggerTest, RecordsOneStepBeforeAndAfterTheRequestedSteps) {
  ring::Start start = MakeStart(Begin::kAtStep, End::kAfterSteps);
  start.step = 14;
  start.steps = 3;
  Begins(start);
  for (uint64_t step = 10; step < 20; ++step) Step(step);
  Wait(ClientState::kCapturing);
  const ring::State done = Wait(ClientState::kDone);
  EXPECT_STREQ(done.text, "");
  EXPECT_GE(done.t1_realtime_ns - done.t0_realtime_ns, Nanos::Millis(45).ns());
  const std::vector<std::string> ranges = Ranges();
  ASSERT_GE(ranges.size(), 4u);
  EXPECT_EQ(ranges[0], "step 13");
  EXPECT_EQ(ranges[3], "step 16");
  EXPECT_LE(ranges.size(), 6u) << "step 17 may begin within the last one's tail, and end in it";
}

TEST_F(AgentTriggerTest, ReportsItsStepAndBeginsAtTheCommonOne) {
  ring::Start start = MakeStart(Begin::kReportStep, End::kAfterSteps);
  start.steps = 2;
  Begins(start);
  std::atomic<bool> captured{false};
  std::thread program([&] {
    for (uint64_t step = 100; step < 160 && !captured; ++step) Step(step);
  });
  const ring::State at = Wait(ClientState::kWaiting);
  EXPECT_GE(at.step, 101u) << "one step must have ended for its time to be known";
  EXPECT_GE(at.step_ns, Nanos::Millis(10).ns());
  EXPECT_LT(at.step_ns, Nanos::Seconds(2).ns());
  start.begin = Begin::kAtStep;
  start.step = at.step + 10;
  ASSERT_TRUE(daemon_.Send(ring::MessageType::kStart, start));
  Wait(ClientState::kDone);
  captured = true;
  program.join();
  const std::vector<std::string> ranges = Ranges();
  ASSERT_GE(ranges.size(), 3u);
  EXPECT_EQ(ranges[0], "step " + std::to_string(at.step + 9));
}

TEST_F(AgentTriggerTest, ARangeOpensAndClosesTheWindow) {
  ring::Start start = MakeStart(Begin::kAtRange, End::kAtRangeEnd);
  std::strcpy(start.range, "epoch");
  Begins(start);
  capture_->nvtx().Push(nullptr, {"before", 6}, 0);
  capture_->nvtx().Pop(nullptr);
  capture_->nvtx().Push(nullptr, {"epoch", 5}, 0);
  cupti_.Emit(MakeKernel(kSystemTiming.realtime().ns(), kSystemTiming.realtime().ns() + 1, 7));
  capture_->nvtx().Push(nullptr, {"inside", 6}, 0);
  kSystemTiming.pause(Nanos::Millis(30));
  capture_->nvtx().Pop(nullptr);
  capture_->nvtx().Pop(nullptr);
  capture_->nvtx().Push(nullptr, {"after", 5}, 0);
  capture_->nvtx().Pop(nullptr);
  Wait(ClientState::kCapturing);
  const ring::State done = Wait(ClientState::kDone);
  EXPECT_GE(done.t1_realtime_ns - done.t0_realtime_ns, Nanos::Millis(30).ns());
  EXPECT_EQ(Ranges(), (std::vector<std::string>{"inside", "epoch"}));
}

TEST_F(AgentTriggerTest, DetectsTheProfilerApiInCuptisRecords) {
  Begins(MakeStart(Begin::kAtProfilerStart, End::kAtProfilerStop));
  const auto call = [this](uint32_t cbid, uint32_t correlation) {
    cupti::Api api = MakeApi(kSystemTiming.realtime().ns(), kSystemTiming.realtime().ns() + 10, correlation);
    api.cbid = cbid;
    cupti_.Emit(api);
  };
  call(cupti::runtime_cbid::kProfilerStart, 1);
  const ring::State begun = Wait(ClientState::kCapturing);
  EXPECT_GT(begun.late_ns, 0);
  EXPECT_LT(begun.late_ns, Nanos::Seconds(2).ns());
  const int64_t now = kSystemTiming.realtime().ns();
  cupti_.Emit(MakeKernel(now, now + 10, 2));
  call(cupti::runtime_cbid::kProfilerStop, 3);
  kSystemTiming.pause(Nanos::Millis(1));
  const int64_t later = kSystemTiming.realtime().ns();
  cupti_.Emit(MakeKernel(later, later + 10, 4));
  Wait(ClientState::kDone);
  std::vector<uint32_t> kernels;
  for (const auto& record : daemon_.end->Drain()) {
    if (record.header.kind == RecordKind::kKernel)
      kernels.push_back(record.as<ring::KernelRecord>().correlation);
  }
  EXPECT_EQ(kernels, std::vector<uint32_t>{2});
}

TEST_F(AgentTriggerTest, OurOwnProfilerCallsTakeEffectAtOnce) {
  Begins(MakeStart(Begin::kAtProfilerStart, End::kAtProfilerStop));
  capture_->OnProfilerCall(Capture::ProfilerCall::kStop);
  capture_->OnProfilerCall(Capture::ProfilerCall::kStart);
  EXPECT_TRUE(capture_->recording());
  kSystemTiming.pause(Nanos::Millis(20));
  capture_->OnProfilerCall(Capture::ProfilerCall::kStop);
  EXPECT_FALSE(capture_->recording());
  EXPECT_EQ(Wait(ClientState::kCapturing).late_ns, 0);
  EXPECT_GE(Wait(ClientState::kDone).t1_realtime_ns, t0_);
}

TEST_F(AgentTriggerTest, AMissingTriggerFailsWithASentenceAndDisablesAll) {
  ring::Start start = MakeStart(Begin::kAtStep, End::kAfterSteps, Nanos::Millis(300));
  start.step = 1000;
  start.steps = 1;
  Begins(start);
  Step(3);
  Step(4);
  std::optional<ring::State> state;
  do {
    state = daemon_.WaitForState();
  } while (state && state->state == ClientState::kWaiting);
  ASSERT_TRUE(state && state->state == ClientState::kFailed);
  EXPECT_STREQ(state->text,
               "that step did not occur before the trigger timeout; the last started step was 4");
  EXPECT_FALSE(cupti_.Enabled(cupti::ActivityKind::kConcurrentKernel));
}

TEST_F(AgentTriggerTest, APassedStepFailsWithItsNumber) {
  ring::Start start = MakeStart(Begin::kAtStep, End::kAfterSteps);
  start.step = 5;
  start.steps = 1;
  Begins(start);
  Step(9);
  const auto state = daemon_.WaitForState();
  ASSERT_TRUE(state && state->state == ClientState::kFailed);
  EXPECT_STREQ(state->text, "step 5 had passed; the first step in the capture was 9; request a later step");
}

TEST_F(AgentTriggerTest, ReportsAMissingEnd) {
  ring::Start start = MakeStart(Begin::kAtRange, End::kAtRangeEnd, Nanos::Millis(300));
  std::strcpy(start.range, "epoch");
  Begins(start);
  capture_->nvtx().Push(nullptr, {"epoch", 5}, 0);
  const ring::State done = Wait(ClientState::kDone);
  EXPECT_STREQ(done.text, "the end of that range did not occur before the timeout; the capture ended then");
  EXPECT_EQ(done.cut, ring::Cut::kEndMissed);
  EXPECT_NEAR(static_cast<double>(done.t1_realtime_ns - done.t0_realtime_ns), 300e6, 1e6);
  EXPECT_EQ(Ranges(), std::vector<std::string>{"epoch"}) << "still open at the end";
}

TEST_F(AgentTriggerTest, StopWhileWaitingReturnsToIdle) {
  Begins(MakeStart(Begin::kReportStep, End::kAfterSteps));
  ASSERT_TRUE(daemon_.Stop(5, 0));
  Wait(ClientState::kIdle);
  EXPECT_FALSE(cupti_.Enabled(cupti::ActivityKind::kConcurrentKernel));
  ArmAndExpectArmed(6);
  StartWindow(6, Nanos::Millis(20));
  const ring::State done = Wait(ClientState::kDone);
  EXPECT_EQ(done.t0_realtime_ns, 0) << "the requested window is not reported";
  EXPECT_EQ(done.cut, ring::Cut::kNone);
}

class OlderDaemonTest : public AgentTest, public testing::WithParamInterface<uint32_t> {};

TEST_P(OlderDaemonTest, ExchangesMessagesOfTheOldLengths) {
  daemon_.layout_minor = GetParam();
  ConnectAndWelcome();
  ArmAndExpectArmed(3);
  const int64_t now = kSystemTiming.realtime().ns();
  ASSERT_TRUE(daemon_.ShortStart(3, now, now + Nanos::Millis(50).ns()));
  auto state = daemon_.WaitForState();
  ASSERT_TRUE(state && state->state == ClientState::kCapturing);
  state = daemon_.WaitForState();
  ASSERT_TRUE(state && state->state == ClientState::kDone);
}
INSTANTIATE_TEST_SUITE_P(Minor, OlderDaemonTest, testing::Values(0, 1, 2));

}  // namespace
}  // namespace lockstep::client
