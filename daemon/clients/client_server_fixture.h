// A fixture for tests at the client socket: a ClientServer with all that it refers to. The daemon's side runs
// on a separate thread; the test is the client.
#ifndef LOCKSTEP_DAEMON_CLIENTS_CLIENT_SERVER_FIXTURE_H_
#define LOCKSTEP_DAEMON_CLIENTS_CLIENT_SERVER_FIXTURE_H_

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "daemon/clients/client_fake.h"
#include "daemon/clients/client_server.h"
#include "daemon/clients/departed_ranks.h"
#include "daemon/node/temp_folder_fake.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {

// Every pid is a process, unless they are hidden.
class TableOfProcesses final : public ProcessTable {
 public:
  std::optional<ProcessInfo> Find(int32_t pid) const override {
    if (hidden) return std::nullopt;
    return ProcessInfo{{pid, 555}, 1};
  }
  std::string ControlGroups(int32_t) const override { return ""; }
  bool hidden = false;
};

class ClientServerTest : public testing::Test, private ClientEvents {
 protected:
  void SetUp() override {
    options_.segment.main_ring_bytes = 64u << 10;
    options_.segment.ring_count = 4;
    options_.owner = getuid();
  }
  void Open() {
    ClientEvents& events = *this;
    server_ = std::make_unique<ClientServer>(options_, *loop_, processes_, jobs_, registry_, attempts_,
                                             departed_, events, log_);
    ASSERT_TRUE(server_->Start(*ListeningSocket::Open(path_, SOCK_SEQPACKET, 0600)).ok());
    thread_ = std::thread([this] { loop_->Run(); });
  }
  void TearDown() override {
    loop_->Stop();
    if (thread_.joinable()) thread_.join();
    server_.reset();
  }
  template <typename F>
  void OnLoop(F f) {
    bool done = false;
    loop_->Post([&] {
      f();
      MutexLock lock(&mutex_);
      done = true;
      changed_.SignalAll();
    });
    MutexLock lock(&mutex_);
    changed_.Wait(&mutex_, [&] { return done; });
  }
  bool WaitFor(const std::function<bool()>& condition) {
    MutexLock lock(&mutex_);
    return changed_.WaitFor(&mutex_, Nanos::Seconds(10), condition);
  }
  // Returns a copy of the reasons why clients were closed so far, because the loop's thread adds more.
  std::vector<std::string> Gone() {
    MutexLock lock(&mutex_);
    return gone_;
  }
  std::vector<ring::State> States() {
    MutexLock lock(&mutex_);
    return states_;
  }
  std::string Refusal(FakeClient& client) {
    const auto refuse = client.Expect<ring::Refuse>(ring::MessageType::kRefuse);
    return refuse ? refuse->reason : "(none)";
  }
  size_t Registered() {
    size_t size = 0;
    OnLoop([&] { size = registry_.size(); });
    return size;
  }
  // Checks that another client is served while a misbehaving one is connected.
  void ExpectService() {
    FakeClient client;
    ASSERT_TRUE(client.Connect(path_));
    EXPECT_TRUE(client.Register("LOCKSTEP_JOB=fine\n"));
  }

  void OnRanksChanged() override {}
  void OnClientProfile(const ProcessId&, const ring::Profile& profile, Fd file) override {
    MutexLock lock(&mutex_);
    profile_bytes_ = profile.bytes;
    profile_file_ = std::move(file);
    changed_.SignalAll();
  }
  void OnClientState(const ProcessId&, const ring::State& state) override {
    MutexLock lock(&mutex_);
    states_.push_back(state);
    changed_.SignalAll();
  }
  void OnClientGone(const ProcessId&, const std::string& why) override {
    MutexLock lock(&mutex_);
    gone_.push_back(why);
    changed_.SignalAll();
  }

  TempFolder folder_;
  const std::string path_ = folder_.path() + "/client.sock";
  SystemClock clock_;
  Fd null_{open("/dev/null", O_WRONLY | O_CLOEXEC)};
  Log log_{null_.get(), LogLevel::kError, clock_};
  std::unique_ptr<EventLoop> loop_ = *EventLoop::Create(clock_);
  TableOfProcesses processes_;
  Registry registry_;
  SchedulerJobs jobs_{processes_};
  ConnectionAttempts attempts_{clock_};
  DepartedRanks departed_{clock_};
  ClientServerOptions options_;
  std::unique_ptr<ClientServer> server_;
  std::thread thread_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<ring::State> states_;
  uint64_t profile_bytes_ = 0;
  Fd profile_file_;
  std::vector<std::string> gone_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CLIENTS_CLIENT_SERVER_FIXTURE_H_
