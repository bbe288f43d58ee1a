#include "daemon/node/acceptor.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

// A listening socket without a name in the file system.
class AcceptorTest : public testing::Test {
 protected:
  AcceptorTest() : loop_(*EventLoop::Create(clock_)) {
    listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un any{};
    any.sun_family = AF_UNIX;
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&any), sizeof(sa_family_t)), 0);
    EXPECT_EQ(listen(listener_.get(), 256), 0);
  }
  Fd Connect() {
    sockaddr_un name{};
    socklen_t length = sizeof(name);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &length);
    Fd client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&name), length), 0);
    return client;
  }
  // Once per test, because a stopped loop does not run again.
  void RunFor(Nanos time) {
    loop_->After(time, [this] { loop_->Stop(); });
    loop_->Run();
  }
  int LogLines() const {
    std::string text(4096, ' ');
    const ssize_t n = pread(log_file_.get(), text.data(), text.size(), 0);
    return static_cast<int>(std::count(text.begin(), text.begin() + n, '\n'));
  }

  SystemClock clock_;
  Fd log_file_{memfd_create("log", MFD_CLOEXEC)};
  Log log_{log_file_.get(), LogLevel::kInfo, clock_};
  std::unique_ptr<EventLoop> loop_;
  Fd listener_;
  std::vector<Fd> accepted_;
};

// Lets the process open no further descriptor.
class NoMoreDescriptors {
 public:
  explicit NoMoreDescriptors(int highest) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(highest + 1);
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~NoMoreDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(AcceptorTest, AcceptsEveryConnection) {
  Acceptor acceptor(*loop_, log_);
  ASSERT_TRUE(acceptor.Start(listener_.get(), [this](Fd fd) { accepted_.push_back(std::move(fd)); }).ok());
  std::vector<Fd> clients;
  for (int i = 0; i < 200; ++i) clients.push_back(Connect());
  RunFor(Nanos::Millis(50));
  EXPECT_EQ(accepted_.size(), 200u);
}

TEST_F(AcceptorTest, WaitsWhileThereIsNoDescriptorAndThenContinues) {
  Acceptor acceptor(*loop_, log_);
  ASSERT_TRUE(acceptor.Start(listener_.get(), [this](Fd fd) { accepted_.push_back(std::move(fd)); }).ok());
  const Fd one = Connect();
  const Fd other = Connect();
  auto shortage = std::make_optional<NoMoreDescriptors>(other.get());
  size_t accepted_in_shortage = 0;
  uint64_t wakeups = 0;
  const Nanos length = Acceptor::kShortagePause * 5 / 2;
  loop_->After(length, [&] {
    accepted_in_shortage = accepted_.size();
    wakeups = loop_->wakeups();
    shortage.reset();
  });
  RunFor(length * 2);
  EXPECT_EQ(accepted_in_shortage, 0u);
  EXPECT_LT(wakeups, 10u) << "the loop spins";
  EXPECT_EQ(accepted_.size(), 2u);
  EXPECT_EQ(LogLines(), 1) << "one line per shortage";
}

}  // namespace
}  // namespace lockstep::daemon
