// A fixture for tests of the whole daemon. The daemon runs in this process with real sockets, real gRPC, an
// aggregator that the test controls, and client processes. The fixture ends everything that the test left
// running.
#ifndef LOCKSTEP_DAEMON_DAEMON_FIXTURE_H_
#define LOCKSTEP_DAEMON_DAEMON_FIXTURE_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/rpc/status_macros.h"
#include "daemon/daemon.h"
#include "daemon/daemon_resources.h"
#include "daemon/node/own_access.h"
#include "daemon/node/temp_folder_fake.h"
#include "daemon/uplink/aggregator_fake.h"

extern char** environ;

namespace lockstep::daemon {

// Opens what the daemon needs with the rights of the test.
inline absl::StatusOr<std::unique_ptr<Daemon>> CreateDaemon(Options options, const Clock& clock, Log& log) {
  LOCKSTEP_ASSIGN_OR_RETURN(DaemonSockets sockets, OpenDaemonSockets(options, AbstractName::kYes));
  LOCKSTEP_ASSIGN_OR_RETURN(
      DaemonResources resources,
      OpenDaemonResources(options, std::move(sockets), std::make_shared<OwnAccess>(), log));
  return Daemon::Create(std::move(options), std::move(resources), clock, log);
}

class DaemonTest : public testing::Test {
 protected:
  using Seen = FakeAggregator::Seen;
  static constexpr columns::Kind kKernel = columns::Kind::kKernel;

  void SetUp() override {
    options_.socket = folder_.path() + "/client.sock";
    options_.node_id = "test-node";
    options_.node_name = "test-name";
    options_.log_level = LogLevel::kError;
    FakeAggregator::Options fake;
    fake.address = "unix:" + folder_.path() + "/aggregator.sock";
    fake.clock_ahead = Nanos::Millis(250);
    aggregator_ = std::make_unique<FakeAggregator>(fake);
  }
  void TearDown() override {
    StopDaemon();
    for (pid_t pid : children_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    aggregator_.reset();
  }

  enum class With { kAggregator, kNothing };
  void StartDaemon(With with = With::kAggregator) {
    if (with == With::kAggregator) options_.aggregators = {aggregator_->address()};
    auto daemon = CreateDaemon(options_, clock_, log_);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    thread_ = std::thread([this] { daemon_->Run(); });
  }
  void StopDaemon() {
    if (!daemon_) return;
    daemon_->Stop();
    if (thread_.joinable()) thread_.join();
    daemon_.reset();
  }

  pid_t StartClient(int rank, uint64_t kernels, const std::string& behaviour = "ok") {
    const std::string identity =
        "LOCKSTEP_JOB=job\nLOCKSTEP_WORLD_SIZE=4\nLOCKSTEP_RANK=" + std::to_string(rank) + "\n";
    const std::string count = std::to_string(kernels);
    std::vector<const char*> argv = {LOCKSTEP_FAKE_CLIENT, options_.socket.c_str(), identity.c_str(),
                                     count.c_str(),        behaviour.c_str(),       nullptr};
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, argv[0], nullptr, nullptr, const_cast<char**>(argv.data()), environ), 0);
    children_.push_back(pid);
    return pid;
  }
  bool WaitForRanks(size_t count) {
    return aggregator_->WaitFor([&](const Seen& s) { return s.ranks.size() == count; });
  }
  bool WaitForState(const std::string& capture, pid_t pid, v1::RankState::State state) {
    return aggregator_->WaitFor([&](const Seen& s) { return s.LastState(capture, pid).state() == state; });
  }
  // Waits for the ends of `count` captures of processes, and for the last state of each. The daemon sends
  // states ahead of records or behind them, so a last state may arrive after its process's end.
  bool WaitForEnds(size_t count) {
    return aggregator_->WaitFor([&](const Seen& s) {
      return s.ends.size() == count &&
             std::all_of(s.ends.begin(), s.ends.end(), [&](const v1::CaptureEnd& end) {
               const auto state = s.LastState(end.capture(), end.process().pid()).state();
               return state == v1::RankState::DONE || state == v1::RankState::FAILED ||
                      state == v1::RankState::GONE;
             });
    });
  }
  void Capture(const std::string& capture, Nanos length = Nanos::Millis(100)) {
    const std::vector<v1::Rank> ranks = aggregator_->seen().ranks;
    aggregator_->Arm(capture, ranks);
    for (const v1::Rank& rank : ranks) {
      ASSERT_TRUE(aggregator_->WaitFor([&](const Seen& s) {
        const auto state = s.LastState(capture, rank.process().pid()).state();
        return state != v1::RankState::STATE_UNSPECIFIED && state != v1::RankState::SEEN;
      }));
    }
    aggregator_->Start(capture, Nanos::Millis(50), length);
  }

  TempFolder folder_;
  SystemClock clock_;
  Log log_{STDERR_FILENO, LogLevel::kError, clock_};
  Options options_;
  std::unique_ptr<FakeAggregator> aggregator_;
  std::unique_ptr<Daemon> daemon_;
  std::thread thread_;
  std::vector<pid_t> children_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DAEMON_FIXTURE_H_
