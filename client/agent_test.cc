// The agent, turn by turn, between a fake CUPTI and a fake daemon: the whole life of a capture, and what goes
// wrong in it.
#include "client/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "tests/abi/support/fake_cupti.h"
#include "tests/abi/support/fake_daemon.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using ring::ClientState;
using ring::LossReason;
using ring::RecordKind;

Gate g_gate;
Capture* g_capture = nullptr;
FakeCupti* g_cupti = nullptr;
std::string g_socket;

bool OpenFake(CuptiApi* api, Sentence* why) {
  if (g_cupti == nullptr) {
    *why << "no CUPTI library was found";
    return false;
  }
  *api = g_cupti->Api();
  return true;
}

class AgentTest : public testing::Test {
 protected:
  AgentTest() : daemon_(folder_.socket()) {
    g_socket = folder_.socket();
    g_cupti = &cupti_;
    capture_ = std::make_unique<Capture>(
        g_gate, kSystemTiming, OpenFake,
        CuptiCallbacks{[](uint8_t** buffer, size_t* bytes, size_t* most) {
                         g_capture->cupti().OnRequested(buffer, bytes, most);
                       },
                       [](cupti::Context, uint32_t, uint8_t* buffer, size_t, size_t valid) {
                         g_capture->cupti().OnCompleted(buffer, valid);
                       }});
    g_capture = capture_.get();
    EXPECT_TRUE(capture_->recorder().Init(nullptr));
    agent_ = std::make_unique<Agent>(kSystemTiming, *capture_,
                                     [] { return SocketSearch{.environment = g_socket.c_str()}; });
  }
  ~AgentTest() override {
    StopThread();
    g_gate.Close();
    g_cupti = nullptr;
  }

  // The agent's thread, until the test ends.
  void StartThread() {
    thread_ = std::thread([this] {
      tid_ = ::gettid();
      while (!stop_.load()) {
        const Nanos pause = agent_->Turn(EntryKind::kCudaInjection);
        if (pause > Nanos()) kSystemTiming.pause(pause);
      }
    });
  }
  void StopThread() {
    stop_ = true;
    daemon_.HangUp();  // wakes it from its sleep
    daemon_.StopListening();
    if (thread_.joinable()) thread_.join();
  }
  void ConnectAndWelcome() {
    StartThread();
    ASSERT_TRUE(daemon_.AcceptHello());
    ASSERT_TRUE(daemon_.WelcomeWithNewSegment());
  }
  void ArmAndExpectArmed(uint64_t capture, uint32_t activities = ring::kDefaultActivities) {
    ASSERT_TRUE(daemon_.Arm(capture, activities));
    const auto state = daemon_.WaitForState();
    ASSERT_TRUE(state.has_value());
    ASSERT_EQ(state->state, ClientState::kArmed) << state->text;
    EXPECT_EQ(state->capture, capture);
  }
  // How often the agent's thread has gone to sleep.
  uint64_t WakeUps() {
    std::ifstream status("/proc/self/task/" + std::to_string(tid_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("voluntary_ctxt_switches:", 0) == 0) return std::stoull(line.substr(24));
    }
    ADD_FAILURE() << "no such thread";
    return 0;
  }
  // A window from now on; returns its start.
  int64_t StartWindow(uint64_t capture, Nanos length) {
    t0_ = kSystemTiming.realtime().ns();
    EXPECT_TRUE(daemon_.Start(capture, t0_, t0_ + length.ns()));
    const auto state = daemon_.WaitForState();
    EXPECT_TRUE(state.has_value() && state->state == ClientState::kCapturing);
    return t0_;
  }

  SocketFolder folder_;
  FakeDaemon daemon_;
  FakeCupti cupti_;
  std::unique_ptr<Capture> capture_;
  std::unique_ptr<Agent> agent_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<int> tid_{0};
  int64_t t0_ = 0;
};

TEST_F(AgentTest, SaysWhoItIsFromTheEnvironmentItRunsIn) {
  ::setenv("OMPI_COMM_WORLD_RANK", "5", 1);
  ::setenv("SLURM_JOB_ID", "line\nbreak", 1);
  StartThread();
  ASSERT_TRUE(daemon_.AcceptHello());
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::unsetenv("SLURM_JOB_ID");
  EXPECT_EQ(daemon_.hello.layout_major, ring::kLayoutMajor);
  EXPECT_EQ(daemon_.hello.claimed_pid, ::getpid());
  EXPECT_GT(daemon_.hello.process_start_ticks, 0u);
  EXPECT_EQ(daemon_.hello.has_segment, 0u);
  const std::string identity = daemon_.hello.identity;
  EXPECT_NE(("\n" + identity).find("\nOMPI_COMM_WORLD_RANK=5\n"), std::string::npos) << identity;
  EXPECT_EQ(identity.find("SLURM_JOB_ID"), std::string::npos) << "a value could pass for another variable";
  EXPECT_THAT(std::string(daemon_.hello.program), testing::HasSubstr("lockstep_client"));
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
  // Everything is as it was.
  EXPECT_TRUE(cupti_.NothingEnabled());
  cupti_.Locked([](FakeCupti& f) {
    EXPECT_EQ(f.thread_id_type, cupti::ThreadIdType::kDefault);
    EXPECT_TRUE(f.all_sync_records);
  });
}

TEST_F(AgentTest, ASecondCaptureIsAsGoodAsTheFirstAndStringsStartAnew) {
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

TEST_F(AgentTest, ReportsHowLateItLearnedOfT0) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t now = kSystemTiming.realtime().ns();
  ASSERT_TRUE(daemon_.Start(1, now - 30'000'000, now + 50'000'000));
  const auto state = daemon_.WaitForState();
  ASSERT_TRUE(state.has_value());
  EXPECT_GE(state->late_ns, 30'000'000);
  EXPECT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
}

TEST_F(AgentTest, AWindowInTheFutureHoldsNothingFromBeforeIt) {
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

TEST_F(AgentTest, ARecordThatCompletesAfterTheWindowIsWaitedFor) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Millis(50));
  cupti_.Withhold();
  cupti_.Emit(MakeKernel(t0 + 10, t0 + 700'000'000, 5));
  std::thread gpu([this] {
    kSystemTiming.pause(Nanos::Millis(700));
    cupti_.Complete();
  });
  const auto done = daemon_.WaitForState();
  gpu.join();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel).size(), 1u);
}

TEST_F(AgentTest, ARecordThatNeverCompletesIsForcedOutAndCounted) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Millis(50));
  cupti_.Withhold();
  cupti_.Emit(MakeKernel(t0 + 10, 0, 5));
  const auto since = kSystemTiming.monotonic();
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  EXPECT_LT((kSystemTiming.monotonic() - since).seconds(), 3.5);
  EXPECT_EQ(daemon_.end->Lost(LossReason::kBadStamp, RecordKind::kKernel), 1u);
}

TEST_F(AgentTest, WhatCuptiDropsInTheWindowIsCountedAndWhatItDroppedBeforeIsNot) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  cupti_.Locked([](FakeCupti& f) { f.dropped = 1000; });
  const int64_t t0 = StartWindow(1, Nanos::Millis(150));
  kSystemTiming.pause(Nanos::Millis(80));
  cupti_.Locked([](FakeCupti& f) { f.dropped = 7; });
  cupti_.Emit(MakeKernel(t0 + 10, t0 + 11, 1));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->Lost(LossReason::kCuptiDropped, RecordKind::kPad), 7u);
}

TEST_F(AgentTest, StopEndsTheWindowEarlyAndKeepsWhatThereIs) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Seconds(3600));
  cupti_.Emit(MakeKernel(t0 + 10, t0 + 11, 1));
  ASSERT_TRUE(daemon_.Stop(1, 0));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel).size(), 1u);
}

TEST_F(AgentTest, AbortUndoesAllAndGoesIdle) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  ASSERT_TRUE(daemon_.Stop(1, 1));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kIdle);
  EXPECT_TRUE(cupti_.NothingEnabled());
  EXPECT_EQ(g_gate.capture.load(), 0u);
  ArmAndExpectArmed(2);
}

TEST_F(AgentTest, AnyErrorWhileArmingUndoesWhatWasDoneAndStaysDormant) {
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
              testing::HasSubstr("999 (CUPTI_ERROR_UNKNOWN): CUPTI cannot be used in this process"));
}

TEST_F(AgentTest, NoCuptiFailsWithASentenceButNvtxAloneWorks) {
  g_cupti = nullptr;
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

TEST_F(AgentTest, AVersionThatDeadlocksIsRefusedByName) {
  cupti_.version = cupti::kVersion_13_0;
  ConnectAndWelcome();
  ASSERT_TRUE(daemon_.Arm(1));
  const auto state = daemon_.WaitForState();
  ASSERT_EQ(state->state, ClientState::kFailed);
  EXPECT_THAT(state->text, testing::HasSubstr("13.0 Update 1"));
  EXPECT_TRUE(cupti_.NothingEnabled());
}

TEST_F(AgentTest, AForeignClockIsRefusedByName) {
  cupti_.now = 123456789;  // the processor's tick counter, as another profiler leaves it behind
  ConnectAndWelcome();
  ASSERT_TRUE(daemon_.Arm(1));
  const auto state = daemon_.WaitForState();
  ASSERT_EQ(state->state, ClientState::kFailed);
  EXPECT_THAT(state->text, testing::HasSubstr("host's clock"));
}

TEST_F(AgentTest, ADaemonThatDiesInACaptureLeavesNothingOnAndItsSuccessorGetsTheSegment) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Seconds(3600));
  cupti_.Emit(MakeKernel(t0 + 10, t0 + 11, 99));
  cupti_.GiveBack();
  daemon_.HangUp();
  const uint64_t bytes = daemon_.end->segment.bytes();
  const auto before = kSystemTiming.monotonic();
  ASSERT_TRUE(daemon_.AcceptHello(3000));
  EXPECT_LT((kSystemTiming.monotonic() - before).seconds(), 1.5);
  EXPECT_TRUE(cupti_.NothingEnabled());
  EXPECT_EQ(daemon_.hello.has_segment, 1u);
  ASSERT_TRUE(daemon_.offered.ok());
  ring::Segment adopted;
  ASSERT_EQ(ring::Segment::Adopt(std::move(daemon_.offered), &adopted), ring::SegmentError::kNone);
  ring::RingReader reader = adopted.Reader(0);
  alignas(8) std::byte scratch[ring::kMaxRecordBytes];
  ASSERT_EQ(reader.Read(scratch), ring::ReadStatus::kRecords);
  ring::RecordView view;
  bool found = false;
  while (reader.Next(&view))
    found |= view.header.kind == RecordKind::kKernel && view.as<ring::KernelRecord>().correlation == 99;
  EXPECT_TRUE(found) << "what the dead daemon had not drained";
  ASSERT_TRUE(daemon_.WelcomeBack(bytes));
  ArmAndExpectArmed(2);
}

TEST_F(AgentTest, AForeignOrBrokenMessageIsIgnored) {
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

TEST_F(AgentTest, AnUnsealedSegmentIsNotMapped) {
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

TEST_F(AgentTest, AnEndingProcessFinishesItsCaptureFirst) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Seconds(3600));
  cupti_.Emit(MakeKernel(t0 + 10, t0 + 11, 1));
  agent_->FinishForExit(Nanos::Seconds(3));
  ASSERT_EQ(daemon_.WaitForState(100)->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel).size(), 1u);
}

TEST_F(AgentTest, AnEndingProcessThatCapturesNothingDoesNotWait) {
  ConnectAndWelcome();
  const auto before = kSystemTiming.monotonic();
  agent_->FinishForExit(Nanos::Seconds(3));
  EXPECT_LT((kSystemTiming.monotonic() - before).millis(), 50);
}

TEST_F(AgentTest, MoreRecordsThanBuffersHoldAreDroppedByCuptiAndCounted) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Millis(300));
  std::vector<std::pair<uint8_t*, size_t>> taken;
  for (size_t bytes = 0;;) {
    uint8_t* buffer = cupti_.Request(&bytes);
    if (buffer == nullptr) break;
    taken.emplace_back(buffer, bytes);
  }
  EXPECT_EQ(taken.size(), kCuptiBuffers);
  EXPECT_FALSE(cupti_.Emit(MakeKernel(t0, t0 + 1, 1)));
  for (auto [buffer, bytes] : taken) cupti_.ReturnBuffer(buffer, bytes, 0);
  EXPECT_TRUE(cupti_.Emit(MakeKernel(t0 + 1, t0 + 2, 2)));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->Lost(LossReason::kCuptiDropped, RecordKind::kPad), 1u);
}

TEST_F(AgentTest, AnOldCuptiThatDiesOfANullBufferIsNeverGivenOne) {
  cupti_.version = 24;  // CUDA 12.6
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Millis(200));
  std::vector<std::pair<uint8_t*, size_t>> taken;
  for (size_t i = 0; i < kCuptiBuffers + 3; ++i) {
    size_t bytes = 0;
    uint8_t* buffer = cupti_.Request(&bytes);
    ASSERT_NE(buffer, nullptr);
    ASSERT_EQ(bytes, kCuptiBufferBytes);
    taken.emplace_back(buffer, bytes);
  }
  // Two records in the shared last resort: they are not trusted, but they are counted.
  const auto a = MakeApi(t0 + 1, t0 + 2, 1);
  std::memcpy(taken.back().first, &a, sizeof a);
  std::memcpy(taken.back().first + sizeof a, &a, sizeof a);
  cupti_.ReturnBuffer(taken.back().first, kCuptiBufferBytes, 2 * sizeof a);
  for (size_t i = 0; i < kCuptiBuffers; ++i) cupti_.ReturnBuffer(taken[i].first, taken[i].second, 0);
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  EXPECT_TRUE(daemon_.end->DrainOnly<ring::ApiRecord>(RecordKind::kApi).empty());
  EXPECT_EQ(daemon_.end->Lost(LossReason::kCuptiDropped, RecordKind::kPad), 2u);
}

TEST_F(AgentTest, SeveralThreadsMayCompleteBuffersAtOnceAndNothingIsLost) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Millis(600));
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kRounds = 50;
  constexpr uint32_t kPerBuffer = 20;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t round = 0; round < kRounds; ++round) {
        size_t bytes = 0;
        uint8_t* buffer = cupti_.Request(&bytes);
        // All lent while the one thread that converts is not running: CUPTI would count a drop, we try again.
        for (; buffer == nullptr; buffer = cupti_.Request(&bytes)) std::this_thread::yield();
        for (uint32_t i = 0; i < kPerBuffer; ++i) {
          const auto kernel = MakeKernel(t0 + 1, t0 + 2, (t * kRounds + round) * kPerBuffer + i);
          std::memcpy(buffer + i * sizeof kernel, &kernel, sizeof kernel);
        }
        cupti_.ReturnBuffer(buffer, bytes, kPerBuffer * sizeof(cupti::Kernel10));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  std::set<uint32_t> seen;
  for (const auto& k : daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel))
    seen.insert(k.correlation);
  EXPECT_EQ(seen.size(), kThreads * kRounds * kPerBuffer);
  EXPECT_EQ(daemon_.end->LostInAll(), 0u);
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
