#include "base/log/syslog_lines.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/log/line_sink_fake.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

class SyslogLinesTest : public ::testing::Test {
 protected:
  ~SyslogLinesTest() override { std::filesystem::remove_all(folder_); }

  Fd Listen() const {
    unlink(path_.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    Fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  static std::string Received(const Fd& fd) {
    char text[1000];
    const ssize_t n = recv(fd.get(), text, sizeof(text), 0);
    return n < 0 ? "" : std::string(text, static_cast<size_t>(n));
  }

  static std::string NewFolder() {
    char pattern[] = "/tmp/lockstep-syslog-XXXXXX";
    return mkdtemp(pattern);
  }

  const std::string folder_ = NewFolder();
  const std::string path_ = folder_ + "/log";
  RecordedLines kept_;
  std::vector<std::string> events_;
  SyslogLines lines_{
      std::make_unique<FakeLineSink>(kept_), "lockstepd", path_,
      [this](LogLevel, const char* event, std::initializer_list<LogField>) { events_.emplace_back(event); }};
};

TEST_F(SyslogLinesTest, CopiesEachLine) {
  const Fd daemon = Listen();
  ASSERT_TRUE(lines_.Append("{\"v\":1}").ok());
  EXPECT_EQ(Received(daemon), "<86>lockstepd[" + std::to_string(getpid()) + "]: {\"v\":1}");
  EXPECT_EQ(kept_.lines(), std::vector<std::string>{"{\"v\":1}"});
  EXPECT_TRUE(events_.empty());
}

TEST_F(SyslogLinesTest, ReportsOnceThatNobodyListensAndContinues) {
  for (const char* line : {"a", "b"}) EXPECT_TRUE(lines_.Append(line).ok());
  EXPECT_EQ(events_, std::vector<std::string>{"syslog_failed"});
  const Fd daemon = Listen();
  ASSERT_TRUE(lines_.Append("c").ok());
  EXPECT_NE(Received(daemon).find("]: c"), std::string::npos);
  EXPECT_EQ(events_, (std::vector<std::string>{"syslog_failed", "syslog_works_again"}));
  EXPECT_EQ(kept_.lines().size(), 3u);
}

TEST_F(SyslogLinesTest, ReconnectsToARestartedDaemon) {
  Fd daemon = Listen();
  ASSERT_TRUE(lines_.Append("a").ok());
  daemon.reset();
  const Fd restarted = Listen();
  ASSERT_TRUE(lines_.Append("b").ok());
  EXPECT_NE(Received(restarted).find("]: b"), std::string::npos);
  EXPECT_TRUE(events_.empty());
}

TEST_F(SyslogLinesTest, NeverWaitsForADaemonThatDoesNotRead) {
  const Fd daemon = Listen();
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(lines_.Append(std::string(1000, 'x')).ok());
  EXPECT_EQ(events_, std::vector<std::string>{"syslog_failed"});
}

}  // namespace
}  // namespace lockstep
