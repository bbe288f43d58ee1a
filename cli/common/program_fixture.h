#ifndef LOCKSTEP_CLI_COMMON_PROGRAM_FIXTURE_H_
#define LOCKSTEP_CLI_COMMON_PROGRAM_FIXTURE_H_

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::cli {

// A finished command.
struct Result {
  int code = -1;
  std::string out, err;
};

// Runs the program lockstep from a shell, in a temporary folder with its own socket and state. Every daemon
// that a test started has to end on SIGTERM after it.
class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() {
    char pattern[] = "/tmp/lk-program-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    ::setenv("LOCKSTEP_SOCKET", Socket().c_str(), 1);
    ::setenv("XDG_STATE_HOME", (folder_ + "/state").c_str(), 1);
    for (const char* name :
         {"LOCKSTEP_AGGREGATOR", "LOCKSTEP_TOKEN_FILE", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH",
          "NCCL_PROFILER_PLUGIN", "KINETO_USE_DAEMON", "KINETO_IPC_SOCKET_DIR", "LD_PRELOAD"}) {
      ::unsetenv(name);
    }
  }
  ~ProgramTest() override {
    for (const pid_t pid : Daemons()) ::kill(pid, SIGTERM);
    for (int i = 0; i < 200 && !Daemons().empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(Daemons().empty()) << "the daemon did not end on SIGTERM";
    std::filesystem::remove_all(folder_);
  }

  std::string Socket() const { return folder_ + "/client.sock"; }

  // Runs a command in a shell, in which `lockstep` is the built program.
  Result Run(const std::string& command) const {
    const std::string err = folder_ + "/.err";
    Result result =
        RunWith(command, ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), [] {});
    result.err = Read(err);
    return result;
  }
  // Like Run, with stderr on a terminal.
  Result RunOnTerminal(const std::string& command) const {
    const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    EXPECT_TRUE(terminal >= 0 && ::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0);
    std::string shown;
    Result result =
        RunWith(command, ::open(::ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC), [terminal, &shown] {
          char piece[4096];
          // Ends with EIO when no process has the other side open.
          for (ssize_t n = 0; (n = ::read(terminal, piece, sizeof piece)) > 0;)
            shown.append(piece, static_cast<size_t>(n));
        });
    ::close(terminal);
    result.err = shown;
    return result;
  }
  // `err` becomes the command's stderr and is closed here. `meanwhile` runs while the command runs.
  Result RunWith(const std::string& command, int err, const std::function<void()>& meanwhile) const {
    const std::string line = "lockstep() { \"" LOCKSTEP_PROGRAM
                             "\" \"$@\"; };"
                             "lockstep_aggregator() { exec \"" LOCKSTEP_PROGRAM
                             "-aggregator\" \"$@\"; };"
                             "wait_for() { for i in $(seq 200); do [ -s $1 ] && return; sleep 0.05; done; };"
                             "cd " +
                             folder_ + "; " + command;
    const std::string out = folder_ + "/.out";
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open("/dev/null", O_RDONLY), 0);
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
      ::dup2(err, 2);
      ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      ::_exit(99);
    }
    ::close(err);
    meanwhile();
    int status = 0;
    ::waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), Read(out), ""};
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  // Returns processes whose command line names this test's socket.
  std::vector<pid_t> Daemons() const {
    std::vector<pid_t> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
      const int pid = std::atoi(entry.path().filename().c_str());
      if (pid <= 0 || Read(entry.path() / "comm") != "lockstepd\n") continue;
      if (Read(entry.path() / "cmdline").find(Socket()) != std::string::npos) found.push_back(pid);
    }
    return found;
  }

  std::string folder_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_PROGRAM_FIXTURE_H_
