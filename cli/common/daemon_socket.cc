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
#include "base/read_clock.h"
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

bool Exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 || errno != ENOENT;
}

constexpr char kNoSocket[] = "no socket exists";

// Returns an empty string if a daemon answers, else the reason why not.
std::string ProbeError(const std::string& path) {
  const FolderVerdict verdict = CheckSocketFolder(path.c_str(), ::geteuid());
  // The rights of a folder matter only if a socket is in it.
  if (verdict != FolderVerdict::kMissing && !Exists(path)) return kNoSocket;
  if (verdict != FolderVerdict::kUsable) return Explain(verdict);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return "its path is too long for a socket";
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.ok()) return std::strerror(errno);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return "";
  if (errno == EAGAIN) return "";  // its backlog is full, so it is alive
  return errno == ENOENT ? kNoSocket : errno == ECONNREFUSED ? "no daemon listens" : std::strerror(errno);
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

// Runs in the child between fork and exec, so it may only use system calls.
[[noreturn]] void BecomeDaemon(const char* program, const char* socket, const char* log) {
  ::setsid();
  // The second fork detaches the daemon: it never gets a controlling terminal, and its parent is init.
  if (::fork() != 0) ::_exit(0);
  const int null = ::open("/dev/null", O_RDWR);
  const int out = ::open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  ::dup2(null, 0);
  ::dup2(out >= 0 ? out : null, 1);
  ::dup2(out >= 0 ? out : null, 2);
  // A launcher waits for all processes that hold its pipes.
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
  for (int i = 0; i < places.count; ++i)
    out.push_back({places.place[i].path, ProbeError(places.place[i].path)});
  return out;
}

absl::StatusOr<DaemonPlace> DaemonFinder::Find() const {
  const SocketPlaces order = SearchOrder(argument_);
  for (int i = 0; i < order.count; ++i) {
    const FolderVerdict verdict = CheckSocketFolder(order.place[i].path, ::geteuid());
    const bool untrusted =
        (verdict == FolderVerdict::kForeignOwner || verdict == FolderVerdict::kOthersMayWrite) &&
        Exists(order.place[i].path);
    // A user who names a place must not get an answer from another one.
    if (order.place[i].origin == SocketOrigin::kArgument && untrusted) {
      return absl::PermissionDeniedError(
          absl::StrCat("--daemon ", order.place[i].path, ": ", Explain(verdict)));
    }
    // Stops at the first answer, because every probed daemon remembers this process as expected.
    if (ProbeError(order.place[i].path).empty()) return PlaceOf(order.place[i].path);
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
    const FolderVerdict verdict = CheckSocketFolder(place.path, ::geteuid());
    if (verdict == FolderVerdict::kUsable && ::access(folder.c_str(), W_OK) == 0) return true;
    absl::StrAppend(&why, why.empty() ? "" : "; ", place.path, ": ",
                    verdict == FolderVerdict::kUsable ? "its folder is not writable" : Explain(verdict));
    return false;
  };
  // A named place is binding. The exception is a launcher that passes its own node's variable to other nodes.
  // The folder may be missing there, because a user's runtime folder is created at login.
  for (int i = 0; i < places.count; ++i) {
    const bool named = places.place[i].origin == SocketOrigin::kArgument ||
                       places.place[i].origin == SocketOrigin::kEnvironment;
    if (named && usable(places.place[i])) return std::string(places.place[i].path);
    if (named && places.place[i].origin == SocketOrigin::kEnvironment &&
        ::access(FolderOf(places.place[i].path).c_str(), F_OK) != 0)
      continue;
    if (named) return absl::PermissionDeniedError(absl::StrCat("cannot start a daemon at ", why));
  }
  for (int i = places.count - 1; i >= 0; --i) {
    if (places.place[i].origin != SocketOrigin::kSystem && usable(places.place[i]))
      return std::string(places.place[i].path);
  }
  return absl::PermissionDeniedError(absl::StrCat("no usable place for a daemon's socket: ", why));
}

absl::StatusOr<DaemonPlace> DaemonFinder::FindOrStart(const Installation& installation,
                                                      Nanos ready_within) const {
  if (auto found = Find(); found.ok()) return found;
  auto socket = PlaceToStart();
  if (!socket.ok()) return socket.status();
  const std::string lock_path = FolderOf(*socket) + "/start.lock";
  Fd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", lock_path));
  const MonoTime until = ReadMonotonic() + ready_within;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (ReadMonotonic() >= until)
      return absl::DeadlineExceededError(
          absl::StrCat("another process holds ", lock_path, " but starts no daemon"));
    SleepMillis(5);
  }
  // The process that held the lock before may have started the daemon.
  if (!ProbeError(*socket).empty()) {
    if (absl::Status s = Start(installation, *socket, ready_within); !s.ok()) return s;
  }
  return PlaceOf(*socket);
}

absl::Status DaemonFinder::Start(const Installation& installation, const std::string& socket,
                                 Nanos ready_within) const {
  auto program = installation.Program("lockstepd");
  if (!program.ok()) return program.status();
  // The daemon changes its working directory, so it needs absolute paths.
  const std::string absolute = Absolute(socket);
  if (const char* token = std::getenv("LOCKSTEP_TOKEN_FILE"); token != nullptr && token[0] != '\0') {
    ::setenv("LOCKSTEP_TOKEN_FILE", Absolute(token).c_str(), 1);
  }
  const std::string log = FolderOf(socket) + "/lockstepd.log";
  const MonoTime until = ReadMonotonic() + ready_within;
  const pid_t child = ::fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "cannot start lockstepd");
  if (child == 0) BecomeDaemon(program->c_str(), absolute.c_str(), log.c_str());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  while (ReadMonotonic() < until) {
    if (ProbeError(socket).empty()) return absl::OkStatus();
    SleepMillis(5);
  }
  return absl::DeadlineExceededError(absl::StrCat("lockstepd did not answer at ", socket, " within ",
                                                  ready_within.seconds(), " s; its log is ", log));
}

}  // namespace lockstep::cli
