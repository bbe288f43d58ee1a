#include "cli/common/daemon_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/fd.h"
#include "base/socket_path.h"

namespace lockstep::cli {
namespace {

constexpr char kIdleExit[] = "10s";

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.string();
}

DaemonPlace PlaceOf(const std::string& socket) {
  const std::string absolute = Absolute(socket);
  return {absolute, FolderOf(absolute) + "/control.sock"};
}

// Empty when somebody answers.
std::string WhyNot(const std::string& path) {
  const FolderVerdict verdict = JudgeSocketFolder(path.c_str(), ::geteuid());
  if (verdict != FolderVerdict::kUsable) return Explain(verdict);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return "its path is too long for a socket";
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.ok()) return std::strerror(errno);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return "";
  if (errno == EAGAIN) return "";  // its backlog is full: it lives
  return errno == ENOENT         ? "no socket there"
         : errno == ECONNREFUSED ? "nobody listens there"
                                 : std::strerror(errno);
}

SocketPlaces SearchOrder(const std::string& argument) {
  SocketSearch search;
  search.argument = argument.empty() ? nullptr : argument.c_str();
  search.environment = std::getenv("LOCKSTEP_SOCKET");
  search.runtime_dir = std::getenv("XDG_RUNTIME_DIR");
  search.uid = ::geteuid();
  return DaemonSocketPlaces(search);
}

void SleepMillis(int ms) {
  timespec t = {0, ms * 1'000'000};
  ::nanosleep(&t, nullptr);
}

MonoTime MonoNow() {
  timespec t = {};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return MonoTime(static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec);
}

// In a child between fork and exec: system calls only.
[[noreturn]] void BecomeDaemon(const char* program, const char* socket, const char* log) {
  ::setsid();
  // A second fork: the daemon can never get a controlling terminal, and is nobody's child but init's.
  if (::fork() != 0) ::_exit(0);
  const int null = ::open("/dev/null", O_RDWR);
  const int out = ::open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  ::dup2(null, 0);
  ::dup2(out >= 0 ? out : null, 1);
  ::dup2(out >= 0 ? out : null, 2);
  // A launcher waits for whoever holds its pipes.
  if (::syscall(SYS_close_range, 3u, ~0u, 0u) != 0) {
    for (int fd = 3; fd < 65536; ++fd) ::close(fd);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::chdir("/") != 0) ::_exit(1);
  ::execl(program, program, "--socket", socket, "--idle-exit", kIdleExit, static_cast<char*>(nullptr));
  ::_exit(127);
}

}  // namespace

DaemonFinder::DaemonFinder(std::string argument) : argument_(std::move(argument)) {}

std::vector<DaemonFinder::Place> DaemonFinder::Places() const {
  const SocketPlaces places = SearchOrder(argument_);
  std::vector<Place> out;
  if (places.too_long != nullptr)
    out.push_back({places.too_long, "its path is too long for a socket (107 bytes)"});
  for (int i = 0; i < places.count; ++i) out.push_back({places.place[i].path, WhyNot(places.place[i].path)});
  return out;
}

absl::StatusOr<DaemonPlace> DaemonFinder::Find() const {
  const SocketPlaces order = SearchOrder(argument_);
  for (int i = 0; i < order.count; ++i) {
    const FolderVerdict verdict = JudgeSocketFolder(order.place[i].path, ::geteuid());
    const bool untrusted =
        verdict == FolderVerdict::kForeignOwner || verdict == FolderVerdict::kOthersMayWrite;
    // Who names one is not to get another's answer in its place.
    if (order.place[i].origin == SocketOrigin::kArgument && untrusted) {
      return absl::PermissionDeniedError(
          absl::StrCat("--daemon ", order.place[i].path, ": ", Explain(verdict)));
    }
    // Only the one that is meant: a daemon remembers who asked.
    if (WhyNot(order.place[i].path).empty()) return PlaceOf(order.place[i].path);
  }
  const std::vector<Place> places = Places();
  return absl::NotFoundError(absl::StrCat(
      "no Lockstep daemon answers (",
      absl::StrJoin(places, "; ",
                    [](std::string* out, const Place& p) { absl::StrAppend(out, p.path, ": ", p.why_not); }),
      "): start the job with `lockstep run -- COMMAND`, which starts one, or start lockstepd"));
}

absl::StatusOr<std::string> DaemonFinder::PlaceToStart() const {
  const SocketPlaces places = SearchOrder(argument_);
  std::string why;
  const auto usable = [&](const SocketPlace& place) {
    const std::string folder = FolderOf(place.path);
    ::mkdir(folder.c_str(), 0700);
    const FolderVerdict verdict = JudgeSocketFolder(place.path, ::geteuid());
    if (verdict == FolderVerdict::kUsable && ::access(folder.c_str(), W_OK) == 0) return true;
    absl::StrAppend(&why, why.empty() ? "" : "; ", place.path, ": ",
                    verdict == FolderVerdict::kUsable ? "its folder is not writable" : Explain(verdict));
    return false;
  };
  // Who names a place wants the daemon there, and nowhere else. But a launcher hands its own node's variable
  // to others, where the folder may not exist: a user's runtime folder is made at a login.
  for (int i = 0; i < places.count; ++i) {
    const bool named = places.place[i].origin == SocketOrigin::kArgument ||
                       places.place[i].origin == SocketOrigin::kEnvironment;
    if (named && usable(places.place[i])) return std::string(places.place[i].path);
    if (named && places.place[i].origin == SocketOrigin::kEnvironment &&
        ::access(FolderOf(places.place[i].path).c_str(), F_OK) != 0)
      continue;
    if (named) return absl::PermissionDeniedError(absl::StrCat("no daemon can be started at ", why));
  }
  for (int i = places.count - 1; i >= 0; --i) {
    if (places.place[i].origin != SocketOrigin::kSystem && usable(places.place[i]))
      return std::string(places.place[i].path);
  }
  return absl::PermissionDeniedError(absl::StrCat("no place for a daemon's socket is usable: ", why));
}

absl::StatusOr<DaemonPlace> DaemonFinder::FindOrStart(const Siblings& siblings, Nanos ready_within) const {
  if (auto found = Find(); found.ok()) return found;
  auto socket = PlaceToStart();
  if (!socket.ok()) return socket.status();
  const std::string lock_path = FolderOf(*socket) + "/start.lock";
  Fd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", lock_path));
  const MonoTime until = MonoNow() + ready_within;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (MonoNow() >= until)
      return absl::DeadlineExceededError(
          absl::StrCat("somebody else holds ", lock_path, " and starts no daemon"));
    SleepMillis(5);
  }
  // Who had the lock before us has started it by now.
  if (!WhyNot(*socket).empty()) {
    if (absl::Status s = Start(siblings, *socket, ready_within); !s.ok()) return s;
  }
  return PlaceOf(*socket);
}

absl::Status DaemonFinder::Start(const Siblings& siblings, const std::string& socket,
                                 Nanos ready_within) const {
  auto program = siblings.Program("lockstepd");
  if (!program.ok()) return program.status();
  // The daemon leaves this folder.
  const std::string absolute = Absolute(socket);
  if (const char* token = std::getenv("LOCKSTEP_TOKEN_FILE"); token != nullptr && token[0] != '\0') {
    ::setenv("LOCKSTEP_TOKEN_FILE", Absolute(token).c_str(), 1);
  }
  const std::string log = FolderOf(socket) + "/lockstepd.log";
  const MonoTime until = MonoNow() + ready_within;
  const pid_t child = ::fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "cannot start lockstepd");
  if (child == 0) BecomeDaemon(program->c_str(), absolute.c_str(), log.c_str());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  while (MonoNow() < until) {
    if (WhyNot(socket).empty()) return absl::OkStatus();
    SleepMillis(5);
  }
  return absl::DeadlineExceededError(absl::StrCat("lockstepd did not answer at ", socket, " within ",
                                                  ready_within.seconds(), " s; its log is ", log));
}

}  // namespace lockstep::cli
