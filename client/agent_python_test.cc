// Tests the agent with Python: the profile begins and ends with the window, and is sent before the end of the
// capture is reported.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "client/agent_fixture.h"

namespace lockstep::client {
namespace {

using ring::ClientState;

constexpr uint32_t kNvtxAndPython = ring::kActivityNvtx | ring::kActivityPythonProfile;

class AgentPythonTest : public AgentTest {
 protected:
  ~AgentPythonTest() override {
    StopThread();
    StopPython();
  }
  // A main thread that reaches a bytecode every millisecond.
  void RunPython() {
    main_thread_ = std::thread([this] {
      while (!ended_.load()) {
        fake_.RunPending();
        kSystemTiming.pause(Nanos::Millis(1));
      }
    });
  }
  void StopPython() {
    ended_ = true;
    if (main_thread_.joinable()) main_thread_.join();
  }
  std::string Offered() {
    char text[64] = {};
    const ssize_t n = ::pread(daemon_.offered.get(), text, sizeof text, 0);
    return n < 0 ? "" : std::string(text, static_cast<size_t>(n));
  }

  PythonFake fake_;
  std::thread main_thread_;
  std::atomic<bool> ended_{false};
};

TEST_F(AgentPythonTest, TheProfileCoversTheWindowAndPrecedesTheEnd) {
  RunPython();
  ConnectAndWelcome();
  for (uint64_t capture = 3; capture < 5; ++capture) {
    ArmAndExpectArmed(capture, kNvtxAndPython);
    const int64_t t0 = StartWindow(capture, Nanos::Millis(120));
    const auto profile = daemon_.WaitForProfile();
    ASSERT_TRUE(profile.has_value());
    EXPECT_EQ(profile->capture, capture);
    EXPECT_STREQ(profile->text, "");
    EXPECT_EQ(profile->bytes, 9u);
    EXPECT_EQ(Offered(), "a profile");
    EXPECT_GE(profile->begin_ns, t0);
    EXPECT_GE(profile->end_ns, t0 + Nanos::Millis(120).ns());
    const auto done = daemon_.WaitForState();
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->state, ClientState::kDone);
  }
  StopPython();
  EXPECT_EQ(fake_.begun, 2);
  EXPECT_EQ(fake_.ended, 2);
}

TEST_F(AgentPythonTest, NoProfileWithoutARequest) {
  RunPython();
  ConnectAndWelcome();
  ArmAndExpectArmed(3, ring::kActivityNvtx);
  StartWindow(3, Nanos::Millis(60));
  const auto done = daemon_.WaitForState();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->state, ClientState::kDone);
  StopPython();
  EXPECT_EQ(fake_.prepared, 0);
  EXPECT_EQ(fake_.begun, 0);
}

TEST_F(AgentPythonTest, SendsNoProfileToAnOlderDaemon) {
  RunPython();
  daemon_.layout_minor = ring::kMinorWithPythonProfiles - 1;
  ConnectAndWelcome();
  ArmAndExpectArmed(3, kNvtxAndPython);
  StartWindow(3, Nanos::Millis(60));
  const auto done = daemon_.WaitForState();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->state, ClientState::kDone);
  StopPython();
  EXPECT_EQ(fake_.begun, 0);
}

TEST_F(AgentPythonTest, ReportsInTimeAMainThreadThatNeverResponds) {
  ConnectAndWelcome();
  ArmAndExpectArmed(3, kNvtxAndPython);
  StartWindow(3, Nanos::Millis(60));
  const auto profile = daemon_.WaitForProfile();
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->bytes, 0u);
  EXPECT_NE(std::string(profile->text).find("native code"), std::string::npos);
  const auto done = daemon_.WaitForState();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->state, ClientState::kDone);
}

TEST_F(AgentPythonTest, StopsTheProfilerWhenTheDaemonDisconnects) {
  RunPython();
  ConnectAndWelcome();
  ArmAndExpectArmed(3, kNvtxAndPython);
  StartWindow(3, Nanos::Seconds(60));
  for (int i = 0; i < 500 && fake_.begun == 0; ++i) kSystemTiming.pause(Nanos::Millis(10));
  daemon_.HangUp();
  for (int i = 0; i < 500 && python_.wanted(); ++i) kSystemTiming.pause(Nanos::Millis(10));
  kSystemTiming.pause(Nanos::Millis(20));
  StopPython();
  EXPECT_EQ(fake_.begun, 1);
  EXPECT_EQ(fake_.ended, 1);
}

}  // namespace
}  // namespace lockstep::client
