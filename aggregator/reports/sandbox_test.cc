// Each case enters the real sandbox in a process of its own, because no process can leave it.
#include "aggregator/reports/sandbox.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "aggregator/reports/stored_capture_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

constexpr SandboxLimits kRoomy = {uint64_t{1} << 30, 60, 1 << 20};

class SandboxTest : public ::testing::Test {
 protected:
  SandboxTest() {
    std::ofstream(folder_.path() + "/inside") << "rows";
    std::ofstream(outside_.path() + "/outside") << "secret";
  }

  // Returns the wait status of a process that exits with the result of `work`.
  static int InProcess(const std::function<int()>& work) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work());
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }
  int InSandbox(const SandboxLimits& limits, const std::function<int()>& work) const {
    return InProcess([&] {
      LimitProcess(::getppid(), limits);
      EnterSandbox(folder_.path());
      return work();
    });
  }
  int CodeOf(const std::function<int()>& work) const {
    const int status = InSandbox(kRoomy, work);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // Returns true if the kernel, or a container, lacks that protection.
  bool Lacks(const std::string& protection) const {
    return InProcess([&] {
             LimitProcess(::getppid(), kRoomy);
             const std::vector<std::string> missing = EnterSandbox(folder_.path());
             return std::count(missing.begin(), missing.end(), protection) != 0 ? 1 : 0;
           }) != 0;
  }

  TestFolder folder_, outside_;
};

int Opened(const std::string& path, int flags) { return ::open(path.c_str(), flags, 0600) >= 0 ? 0 : errno; }

TEST_F(SandboxTest, ReadsItsFolder) {
  EXPECT_EQ(CodeOf([&] { return Opened(folder_.path() + "/inside", O_RDONLY); }), 0);
}

TEST_F(SandboxTest, OpensNoOtherFile) {
  if (Lacks("landlock")) GTEST_SKIP() << "the kernel has no landlock";
  EXPECT_EQ(CodeOf([&] { return Opened(outside_.path() + "/outside", O_RDONLY); }), EACCES);
  EXPECT_EQ(CodeOf([&] { return Opened("/etc/passwd", O_RDONLY); }), EACCES);
}

TEST_F(SandboxTest, WritesNoFile) {
  EXPECT_NE(CodeOf([&] { return Opened(folder_.path() + "/inside", O_WRONLY); }), 0);
  EXPECT_NE(CodeOf([&] { return Opened(folder_.path() + "/new", O_WRONLY | O_CREAT); }), 0);
  EXPECT_NE(CodeOf([&] { return ::unlink((folder_.path() + "/inside").c_str()) == 0 ? 0 : errno; }), 0);
}

TEST_F(SandboxTest, OpensNoSocketAndStartsNoProcess) {
  if (kSanitized || Lacks("seccomp")) GTEST_SKIP() << "no seccomp in this build or kernel";
  EXPECT_EQ(CodeOf([] { return ::socket(AF_UNIX, SOCK_STREAM, 0) >= 0 ? 0 : errno; }), EPERM);
  EXPECT_EQ(CodeOf([] { return ::socket(AF_INET, SOCK_STREAM, 0) >= 0 ? 0 : errno; }), EPERM);
  EXPECT_EQ(CodeOf([] { return ::fork() >= 0 ? 0 : errno; }), EPERM);
  EXPECT_EQ(CodeOf([] { return ::execl("/bin/true", "true", nullptr) == 0 ? 0 : errno; }), EPERM);
  EXPECT_EQ(CodeOf([] { return ::kill(::getpid(), 0) == 0 ? 0 : errno; }), EPERM);
}

TEST_F(SandboxTest, StartsThreads) {
  EXPECT_EQ(CodeOf([] {
              int done = 1;
              std::thread([&] { done = 0; }).join();
              return done;
            }),
            0);
}

TEST_F(SandboxTest, LimitsMemoryTimeAndFiles) {
  if (kSanitized) GTEST_SKIP() << "sanitizer builds have no limit on memory";
  SandboxLimits limits = kRoomy;
  limits.memory_bytes = 128 << 20;
  int status = InSandbox(limits, [] { return ::operator new(256 << 20, std::nothrow) == nullptr ? 7 : 0; });
  EXPECT_EQ(WEXITSTATUS(status), 7);
  limits = kRoomy;
  limits.cpu_seconds = 1;
  status = InSandbox(limits, [] {
    for (std::atomic<uint64_t> turns = 0;; ++turns) {
    }
    return 0;
  });
  EXPECT_EQ(WTERMSIG(status), SIGXCPU);
  const int file = ::memfd_create("report", 0);
  status = InSandbox(kRoomy, [&] {
    const std::string large(2 << 20, 'x');
    while (::write(file, large.data(), large.size()) > 0) {
    }
    return 0;
  });
  ::close(file);
  EXPECT_EQ(WTERMSIG(status), SIGXFSZ);
}

TEST_F(SandboxTest, EndsBesideAnotherParent) {
  EXPECT_EQ(WEXITSTATUS(InProcess([] { return LimitProcess(1'000'000'000, kRoomy) ? 0 : 3; })), 3);
}

}  // namespace
}  // namespace lockstep::aggregator
