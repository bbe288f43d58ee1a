// Tests the built client library inside another program: it must not disturb its host process.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/abi/support/fake_daemon.h"
#include "wire/ring/handshake.h"

namespace lockstep::client {
namespace {

using ring::ClientState;
using ring::RecordKind;

// The guest program, with its standard streams connected to the test.
class Guest {
 public:
  explicit Guest(const std::string& mode, const std::vector<std::pair<std::string, std::string>>& environment,
                 const char* program = "guest_program") {
    int in[2];
    int out[2];
    EXPECT_EQ(::pipe2(in, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      ::dup2(out[1], 2);
      ::close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);  // closes descriptors that the test's parent left open
      for (const char* name :
           {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN", "LOCKSTEP_CUPTI_LIB",
            "XDG_RUNTIME_DIR", "LD_PRELOAD", "LOCKSTEP_NVTX_CHAIN", "LOCKSTEP_NCCL_CHAIN"}) {
        ::unsetenv(name);
      }
      for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      ::execl(LOCKSTEP_GUEST_PROGRAM, program, LOCKSTEP_CLIENT_LIBRARY, mode.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    in_ = in[1];
    out_ = out[0];
  }
  ~Guest() {
    ::close(in_);
    ::close(out_);
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  void Continue() { EXPECT_EQ(::write(in_, "g", 1), 1); }
  std::string Line() {
    std::string line;
    for (char c; ::read(out_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  // Returns the exit code, and the rest of the output in `rest`.
  int Finish(std::string* rest = nullptr) {
    std::string text;
    for (char c; ::read(out_, &c, 1) == 1;) text += c;
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    if (rest != nullptr) *rest = text;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
};

class GuestTest : public testing::Test {
 protected:
  GuestTest() : daemon_(folder_.socket()) {}
  std::vector<std::pair<std::string, std::string>> WithDaemon() {
    return {{"LOCKSTEP_SOCKET", folder_.socket()}};
  }

  void StartCapture(uint64_t capture, uint32_t activities) {
    ASSERT_TRUE(daemon_.Arm(capture, activities));
    const auto armed = daemon_.WaitForState();
    ASSERT_TRUE(armed.has_value());
    ASSERT_EQ(armed->state, ClientState::kArmed) << armed->text;
    timespec t;
    ::clock_gettime(CLOCK_REALTIME, &t);
    const int64_t now = t.tv_sec * 1000000000ll + t.tv_nsec;
    ASSERT_TRUE(daemon_.Start(capture, now, now + 3600'000'000'000));
    ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kCapturing);
  }
  std::vector<ring::RangeRecord> StopAndReadRanges(uint64_t capture) {
    EXPECT_TRUE(daemon_.Stop(capture, 0));
    const auto done = daemon_.WaitForState();
    EXPECT_TRUE(done.has_value() && done->state == ClientState::kDone);
    return daemon_.end->DrainOnly<ring::RangeRecord>(RecordKind::kRange);
  }

  SocketFolder folder_;
  FakeDaemon daemon_;
};

TEST_F(GuestTest, TheProgramRunsUnchangedWithoutADaemon) {
  Guest guest("nothing", {{"LOCKSTEP_SOCKET", folder_.path() + "/nobody.sock"}});
  std::string output;
  EXPECT_EQ(guest.Finish(&output), 42);
  EXPECT_EQ(output, "");
}

// The server of CUDA's Multi-Process Service has contexts, but works for ranks and is none itself.
TEST_F(GuestTest, DoesNothingInAnMpsServer) {
  Guest guest("idle", WithDaemon(), "/usr/bin/nvidia-cuda-mps-server");
  EXPECT_FALSE(daemon_.AcceptHello(500));
  guest.Continue();
  EXPECT_EQ(guest.Finish(), 42);
}

TEST_F(GuestTest, LoadsNeitherCuptiNorTheDriverWhileIdle) {
  Guest guest("idle", WithDaemon());
  ASSERT_TRUE(daemon_.AcceptHello());
  ASSERT_TRUE(daemon_.WelcomeWithNewSegment());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  guest.Continue();
  EXPECT_EQ(guest.Line(), "loaded nothing");
  EXPECT_EQ(guest.Finish(), 42);
}

TEST_F(GuestTest, ACaptureWithoutCuptiFailsWithAMessage) {
  auto environment = WithDaemon();
  environment.emplace_back("LOCKSTEP_CUPTI_LIB", "/nonexistent/libcupti.so.13");
  Guest guest("idle", environment);
  ASSERT_TRUE(daemon_.AcceptHello());
  ASSERT_TRUE(daemon_.WelcomeWithNewSegment());
  ASSERT_TRUE(daemon_.Arm(1));
  const auto state = daemon_.WaitForState();
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->state, ClientState::kFailed);
  EXPECT_STREQ(state->text, "cannot open /nonexistent/libcupti.so.13, which LOCKSTEP_CUPTI_LIB names");
  guest.Continue();
  EXPECT_EQ(guest.Finish(), 42);
}

TEST_F(GuestTest, TheClientsThreadBlocksAllSignals) {
  Guest guest("threads", WithDaemon());
  ASSERT_TRUE(daemon_.AcceptHello());
  guest.Continue();
  // All 64 signals except SIGKILL, SIGSTOP and the two that libc reserves.
  EXPECT_EQ(guest.Line(), "blocked\tfffffffe7ffbfeff");
}

TEST_F(GuestTest, DescriptorsAreAbove512AndNotInherited) {
  Guest guest("idle", WithDaemon());
  ASSERT_TRUE(daemon_.AcceptHello());
  ASSERT_TRUE(daemon_.WelcomeWithNewSegment());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  int ours = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(guest.pid()) + "/fd")) {
    const int fd = std::stoi(entry.path().filename());
    if (fd <= 2) continue;
    EXPECT_GE(fd, 512) << std::filesystem::read_symlink(entry.path());
    ++ours;
  }
  EXPECT_EQ(ours, 1) << "the socket; the segment is only mapped";
}

TEST_F(GuestTest, RecordsOnlyRangesPushedInACapture) {
  Guest guest("ranges", WithDaemon());
  ASSERT_TRUE(daemon_.AcceptHello());
  ASSERT_TRUE(daemon_.WelcomeWithNewSegment());
  ASSERT_EQ(guest.Line(), "ready");
  StartCapture(1, ring::kActivityNvtx);
  guest.Continue();
  EXPECT_EQ(guest.Line(), "pushed");
  const auto ranges = StopAndReadRanges(1);
  ASSERT_EQ(ranges.size(), 10u);
  for (const auto& range : ranges) {
    EXPECT_EQ(daemon_.end->strings[range.name], "a range");
    EXPECT_EQ(range.thread, static_cast<uint32_t>(guest.pid()));
    EXPECT_LE(range.start_ns, range.end_ns);
  }
  guest.Continue();
  EXPECT_EQ(guest.Finish(), 42);
}

TEST_F(GuestTest, ForkedChildrenNeitherCrashNorWrite) {
  Guest guest("fork", WithDaemon());
  ASSERT_TRUE(daemon_.AcceptHello());
  ASSERT_TRUE(daemon_.WelcomeWithNewSegment());
  StartCapture(1, ring::kActivityNvtx);
  guest.Continue();
  EXPECT_EQ(guest.Line(), "fork: child fine");
  EXPECT_EQ(guest.Line(), "raw fork: child fine");
  EXPECT_EQ(guest.Line(), "exec: child fine") << "it inherited a descriptor of ours";
  // The process exits during the capture and thereby ends the capture.
  EXPECT_EQ(guest.Finish(), 42);
  std::vector<std::string> names;
  for (const auto& range : daemon_.end->DrainOnly<ring::RangeRecord>(RecordKind::kRange)) {
    names.push_back(daemon_.end->strings[range.name]);
  }
  EXPECT_THAT(names, testing::ElementsAre("in the parent"));
}

TEST_F(GuestTest, ClosingAllDescriptorsPutsNoClientDataIntoTheApplicationsFiles) {
  Guest guest("closeall", WithDaemon());
  ASSERT_TRUE(daemon_.AcceptHello());
  ASSERT_TRUE(daemon_.WelcomeWithNewSegment());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  guest.Continue();
  ASSERT_EQ(guest.Line(), "closed");
  // The client still sleeps on its old socket, and this message wakes it.
  daemon_.Arm(1, ring::kActivityNvtx);
  ASSERT_TRUE(daemon_.AcceptHello(8000)) << "it comes back over a socket of its own";
  ASSERT_TRUE(daemon_.WelcomeWithNewSegment());
  StartCapture(2, ring::kActivityNvtx);
  ASSERT_TRUE(daemon_.Stop(2, 0));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  guest.Continue();
  EXPECT_EQ(guest.Line(), "dirty 0 missing 0");
  EXPECT_EQ(guest.Finish(), 42);
}

TEST_F(GuestTest, PreloadingSetsInjectionVariablesThatAreUnset) {
  Guest guest("environment",
              {{"LD_PRELOAD", LOCKSTEP_CLIENT_LIBRARY}, {"NCCL_PROFILER_PLUGIN", "inspector"}});
  EXPECT_EQ(guest.Line(), "CUDA_INJECTION64_PATH=" LOCKSTEP_CLIENT_LIBRARY);
  EXPECT_EQ(guest.Line(), "NVTX_INJECTION64_PATH=" LOCKSTEP_CLIENT_LIBRARY);
  EXPECT_EQ(guest.Line(), "NCCL_PROFILER_PLUGIN=inspector");
  EXPECT_EQ(guest.Finish(), 0);
  EXPECT_FALSE(daemon_.AcceptHello(300)) << "without CUDA it is no rank";
}

TEST_F(GuestTest, LoadingByPathLeavesTheEnvironmentUnchanged) {
  Guest guest("injected-environment", {{"CUDA_INJECTION64_PATH", LOCKSTEP_CLIENT_LIBRARY}});
  EXPECT_EQ(guest.Line(), "CUDA_INJECTION64_PATH=" LOCKSTEP_CLIENT_LIBRARY);
  EXPECT_EQ(guest.Line(), "NVTX_INJECTION64_PATH=");
  EXPECT_EQ(guest.Line(), "NCCL_PROFILER_PLUGIN=");
}

TEST_F(GuestTest, CommittedRecordsSurviveAKill) {
  Guest guest("ranges", WithDaemon());
  ASSERT_TRUE(daemon_.AcceptHello());
  ASSERT_TRUE(daemon_.WelcomeWithNewSegment());
  ASSERT_EQ(guest.Line(), "ready");
  StartCapture(1, ring::kActivityNvtx);
  guest.Continue();
  EXPECT_EQ(guest.Line(), "pushed");
  ::kill(guest.pid(), SIGKILL);
  EXPECT_TRUE(daemon_.PeerGone(2000));
  EXPECT_EQ(daemon_.end->DrainOnly<ring::RangeRecord>(RecordKind::kRange).size(), 10u);
}

#ifdef LOCKSTEP_REAL_CUPTI
TEST_F(GuestTest, TheRealCuptiWithoutADriverFailsWithAMessage) {
  auto environment = WithDaemon();
  environment.emplace_back("LOCKSTEP_CUPTI_LIB", LOCKSTEP_REAL_CUPTI);
  Guest guest("idle", environment);
  ASSERT_TRUE(daemon_.AcceptHello());
  ASSERT_TRUE(daemon_.WelcomeWithNewSegment());
  ASSERT_TRUE(daemon_.Arm(1));
  const auto state = daemon_.WaitForState();
  ASSERT_TRUE(state.has_value());
  if (state->state == ClientState::kArmed) {
    std::cout << "this machine has a driver: CUPTI works, nothing to see here\n";
  } else {
    EXPECT_EQ(state->state, ClientState::kFailed);
    EXPECT_THAT(state->text, testing::HasSubstr("failed with 999"));
  }
  guest.Continue();
  EXPECT_EQ(guest.Finish(), 42);
}
#endif

#ifdef LOCKSTEP_REAL_NCCL
TEST_F(GuestTest, RecordsRangesOfTheRealNccl) {
  auto environment = WithDaemon();
  environment.emplace_back("NVTX_INJECTION64_PATH", LOCKSTEP_CLIENT_LIBRARY);
  environment.emplace_back("LOCKSTEP_TEST_NCCL", LOCKSTEP_REAL_NCCL);
  Guest guest("nccl", environment);
  ASSERT_TRUE(daemon_.AcceptHello());
  ASSERT_TRUE(daemon_.WelcomeWithNewSegment());
  ASSERT_EQ(guest.Line(), "ready");
  StartCapture(1, ring::kActivityNvtx);
  guest.Continue();
  ASSERT_EQ(guest.Line(), "called");
  const auto ranges = StopAndReadRanges(1);
  ASSERT_EQ(ranges.size(), 6u);
  for (size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_EQ(daemon_.end->strings[ranges[i].name], i % 2 == 0 ? "ncclGroupStart" : "ncclGroupEnd");
    EXPECT_EQ(daemon_.end->strings[ranges[i].domain], "NCCL");
    EXPECT_EQ(ranges[i].header.flags, 0);
  }
  guest.Continue();
  EXPECT_EQ(guest.Finish(), 42);
}

TEST_F(GuestTest, RecordsCollectivesAndMessagesOfTheRealNccl) {
  auto environment = WithDaemon();
  environment.emplace_back("NVTX_INJECTION64_PATH", LOCKSTEP_CLIENT_LIBRARY);
  environment.emplace_back("LOCKSTEP_TEST_NCCL", LOCKSTEP_REAL_NCCL);
  Guest guest("nccl-calls", environment);
  ASSERT_TRUE(daemon_.AcceptHello());
  ASSERT_TRUE(daemon_.WelcomeWithNewSegment());
  ASSERT_EQ(guest.Line(), "ready");
  StartCapture(1, ring::kActivityNvtx | ring::kActivityNccl);
  guest.Continue();
  ASSERT_EQ(guest.Line(), "called");
  ASSERT_TRUE(daemon_.Stop(1, 0));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  std::vector<ring::CollectiveRecord> collectives;
  std::vector<ring::PointToPointRecord> messages;
  for (const auto& record : daemon_.end->Drain()) {
    if (record.header.kind == RecordKind::kCollective)
      collectives.push_back(record.as<ring::CollectiveRecord>());
    if (record.header.kind == RecordKind::kPointToPoint)
      messages.push_back(record.as<ring::PointToPointRecord>());
  }
  auto& strings = daemon_.end->strings;
  ASSERT_EQ(collectives.size(), 2u);
  EXPECT_EQ(strings[collectives[0].function], "AllReduce");
  EXPECT_EQ(collectives[0].bytes, 4000u);
  EXPECT_EQ(strings[collectives[0].reduction], "Max");
  EXPECT_EQ(collectives[0].header.flags, ring::kFromNvtx);
  EXPECT_EQ(strings[collectives[1].function], "Broadcast");
  EXPECT_EQ(collectives[1].bytes, 400u);
  EXPECT_EQ(collectives[1].root, 3);
  EXPECT_EQ(collectives[1].reduction, 0u);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].header.flags, ring::kFromNvtx | ring::kP2pSend);
  EXPECT_EQ(messages[0].bytes, 20u);
  EXPECT_EQ(messages[0].peer, 5);
  EXPECT_EQ(messages[1].header.flags, ring::kFromNvtx);
  EXPECT_EQ(messages[1].bytes, 24u);
  EXPECT_EQ(messages[1].peer, 4);
  // NCCL reads this hash from the invalid communicator, so that it is the same in all four records.
  EXPECT_NE(collectives[0].comm, 0u);
  for (uint64_t comm : {collectives[1].comm, messages[0].comm, messages[1].comm})
    EXPECT_EQ(comm, collectives[0].comm);
  guest.Continue();
  EXPECT_EQ(guest.Finish(), 42);
}
#endif

}  // namespace
}  // namespace lockstep::client
