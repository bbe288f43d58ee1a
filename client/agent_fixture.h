// A test fixture: an agent between a fake CUPTI and a fake daemon, both controlled by the test. A process
// runs one such test at a time. The fixture ends everything that the test left running.
#ifndef LOCKSTEP_CLIENT_AGENT_FIXTURE_H_
#define LOCKSTEP_CLIENT_AGENT_FIXTURE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "client/agent.h"
#include "client/python/python_fixture.h"
#include "tests/abi/support/fake_cupti.h"
#include "tests/abi/support/fake_daemon.h"

namespace lockstep::client {

class AgentTest : public testing::Test {
 protected:
  AgentTest() : daemon_(folder_.socket()) {
    socket_ = folder_.socket();
    reachable_ = &cupti_;
    capture_ = std::make_unique<Capture>(
        flags_, kSystemTiming, &OpenReachable,
        CuptiCallbacks{[](uint8_t** buffer, size_t* bytes, size_t* most) {
                         current_->cupti().OnRequested(buffer, bytes, most);
                       },
                       [](foreign::cupti::Context, uint32_t, uint8_t* buffer, size_t, size_t valid) {
                         current_->cupti().OnCompleted(buffer, valid);
                       }});
    current_ = capture_.get();
    EXPECT_TRUE(capture_->recorder().Init(nullptr));
    agent_ = std::make_unique<Agent>(kSystemTiming, *capture_, python_,
                                     [] { return SocketSearch{.environment = socket_.c_str()}; });
  }
  ~AgentTest() override {
    StopThread();
    flags_.Close();
    reachable_ = nullptr;
  }

  static bool OpenReachable(CuptiApi* api, Sentence* why) {
    if (reachable_ == nullptr) {
      *why << "no CUPTI library was found";
      return false;
    }
    *api = reachable_->Api();
    return true;
  }

  // Runs the agent's thread until the test ends.
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
    daemon_.HangUp();  // wakes the thread
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
    ASSERT_EQ(state->state, ring::ClientState::kArmed) << state->text;
    EXPECT_EQ(state->capture, capture);
  }
  // Returns how often the agent's thread has gone to sleep.
  uint64_t WakeUps() {
    std::ifstream status("/proc/self/task/" + std::to_string(tid_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("voluntary_ctxt_switches:", 0) == 0) return std::stoull(line.substr(24));
    }
    ADD_FAILURE() << "no such thread";
    return 0;
  }
  // Starts a window at the current time, and returns its start.
  int64_t StartWindow(uint64_t capture, Nanos length) {
    t0_ = kSystemTiming.realtime().ns();
    EXPECT_TRUE(daemon_.Start(capture, t0_, t0_ + length.ns()));
    const auto state = daemon_.WaitForState();
    EXPECT_TRUE(state.has_value() && state->state == ring::ClientState::kCapturing);
    return t0_;
  }

  // CUPTI's callbacks carry no user data, and the agent looks up its socket by itself. Both find the objects
  // of the running test in these static members.
  static inline RecordingFlags flags_;
  static inline Capture* current_ = nullptr;
  static inline FakeCupti* reachable_ = nullptr;  // null: no CUPTI library in this process
  static inline std::string socket_;

  SocketFolder folder_;
  FakeDaemon daemon_;
  FakeCupti cupti_;
  std::unique_ptr<Capture> capture_;
  PythonProfile python_{kSystemTiming, kPythonFake};
  std::unique_ptr<Agent> agent_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<int> tid_{0};
  int64_t t0_ = 0;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_AGENT_FIXTURE_H_
