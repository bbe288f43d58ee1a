#include "cli/launch/launcher_aggregator.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "aggregator/server.h"
#include "base/fd.h"
#include "cli/common/command.h"
#include "cli/launch/job_aggregator.h"

namespace lockstep::cli {
namespace {

struct Start {
  std::string program, token_file, log, state_dir, pid;
};

[[noreturn]] void BecomeAggregator(const Start& start, int out) {
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  const int null = ::open("/dev/null", O_RDWR);
  const int log = ::open(start.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  ::dup2(null, 0);
  ::dup2(out, 1);
  ::dup2(log >= 0 ? log : null, 2);
  if (::syscall(SYS_close_range, 3u, ~0u, 0u) != 0) {
    for (int fd = 3; fd < 65536; ++fd) ::close(fd);
  }
  ::execl(start.program.c_str(), start.program.c_str(), "--listen", "0.0.0.0:0", "--token-file",
          start.token_file.c_str(), "--state-dir", start.state_dir.c_str(), "--until-exit", start.pid.c_str(),
          static_cast<char*>(nullptr));
  ::_exit(127);
}

// Reads the port from "listening on 0.0.0.0:PORT\n".
absl::StatusOr<std::string> ReadPort(int fd, Nanos within, const std::string& log) {
  std::string text;
  while (text.find('\n') == std::string::npos) {
    pollfd poll = {fd, POLLIN, 0};
    char buffer[256];
    if (::poll(&poll, 1, static_cast<int>(within.millis())) <= 0) break;
    const ssize_t n = ::read(fd, buffer, sizeof(buffer));
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  const size_t end = text.find('\n');
  const size_t colon = text.rfind(':', end);
  if (end == std::string::npos || colon == std::string::npos) {
    return absl::DeadlineExceededError(
        absl::StrCat("it did not report its address within ", within.seconds(), " s; its log is ", log));
  }
  return text.substr(colon + 1, end - colon - 1);
}

bool Resolves(const char* name) {
  addrinfo* found = nullptr;
  const bool resolves = ::getaddrinfo(name, nullptr, nullptr, &found) == 0;
  if (resolves) ::freeaddrinfo(found);
  return resolves;
}

// Returns an address of this host for the ranks' daemons: its name, or an interface's address if the name
// does not resolve.
std::string OwnAddress() {
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  if (Resolves(name)) return name;
  std::string address = "127.0.0.1";
  ifaddrs* interfaces = nullptr;
  if (::getifaddrs(&interfaces) != 0) return address;
  for (const ifaddrs* i = interfaces; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_UP) == 0 ||
        (i->ifa_flags & IFF_LOOPBACK) != 0) {
      continue;
    }
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof(text));
    address = text;
    break;
  }
  ::freeifaddrs(interfaces);
  return address;
}

}  // namespace

absl::Status StartLauncherAggregator(const Installation& installation, Nanos ready_within) {
  auto program = installation.Program("lockstep-aggregator");
  if (!program.ok()) return program.status();
  Start start;
  start.program = *program;
  start.state_dir = aggregator::DefaultStateDir();
  start.pid = std::to_string(::getpid());
  const std::string folder = absl::StrCat(start.state_dir, "/launchers");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return absl::PermissionDeniedError(absl::StrCat("cannot create ", folder, ": ", error.message()));
  std::filesystem::permissions(start.state_dir, std::filesystem::perms::owner_all, error);
  // The name includes the host, because two login nodes may share the folder.
  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  start.token_file = absl::StrCat(folder, "/", host, "-", start.pid, ".token");
  start.log = absl::StrCat(folder, "/", host, "-", start.pid, ".log");
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot create a pipe");
  Fd in(pipe[0]), out(pipe[1]);
  const pid_t child = ::fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "cannot start lockstep-aggregator");
  if (child == 0) BecomeAggregator(start, out.get());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  out.reset();
  auto port = ReadPort(in.get(), ready_within, start.log);
  if (!port.ok()) return port.status();
  const std::string address = absl::StrCat(OwnAddress(), ":", *port);
  SetForAllNodes(kAggregatorVariable, address);
  SetForAllNodes(kTokenFileVariable, start.token_file);
  // Unique, because only one launcher at a time can have this address.
  SetForAllNodes(kLaunchVariable, absl::StrCat("launch-", address, "-", start.pid));
  PrintMessage(absl::StrCat("aggregator at ", address, "; trace with: lockstep trace --aggregator ", address,
                            " --token-file ", start.token_file, " --duration 2s"));
  return absl::OkStatus();
}

}  // namespace lockstep::cli
