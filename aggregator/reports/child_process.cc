#include "aggregator/reports/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "base/read_clock.h"
#include "base/rpc/status_macros.h"

extern char** environ;

namespace lockstep::aggregator {
namespace {

// Interval of checks for `stop` and for the end of a child, and for the end of one that has closed its
// answer.
constexpr Nanos kCheckInterval = Nanos::Millis(50);
constexpr Nanos kEndCheckInterval = Nanos::Millis(2);

// Duplicates onto a high number, so that no descriptor is overwritten before it has its place in the child.
absl::StatusOr<Fd> High(int fd) {
  constexpr int kAboveAll = 64;
  Fd high(::fcntl(fd, F_DUPFD_CLOEXEC, kAboveAll));
  if (!high.ok()) return absl::ErrnoToStatus(errno, "cannot duplicate a descriptor");
  return high;
}

absl::StatusOr<Fd> FileWith(const std::string& bytes) {
  Fd file(::memfd_create("lockstep-analysis", MFD_CLOEXEC));
  if (!file.ok() || ::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0) {
    return absl::ErrnoToStatus(errno, "cannot create a memory file");
  }
  return High(file.get());
}

struct Pipe {
  Fd read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot create a pipe");
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  LOCKSTEP_ASSIGN_OR_RETURN(pipe.write, High(pipe.write.get()));
  return pipe;
}

// posix_spawn's arguments. The destructor frees them.
class SpawnSettings {
 public:
  SpawnSettings() {
    posix_spawn_file_actions_init(&files_);
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    ::sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    ::sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  void Give(const Fd& fd, int number) { posix_spawn_file_actions_adddup2(&files_, fd.get(), number); }
  void Discard(int number) { posix_spawn_file_actions_addopen(&files_, number, "/dev/null", O_RDWR, 0); }
  void CloseFrom(int number) { posix_spawn_file_actions_addclosefrom_np(&files_, number); }

  absl::StatusOr<pid_t> Spawn(const ChildCommand& command) {
    std::vector<char*> words, environment;
    for (const std::string& word : command.words) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    for (char** variable = environ; *variable != nullptr; ++variable) {
      if (std::strncmp(*variable, "LD_", 3) == 0) environment.push_back(*variable);
    }
    environment.push_back(nullptr);
    pid_t child = -1;
    const int failed = ::posix_spawn(&child, command.program.c_str(), &files_, &attributes_, words.data(),
                                     environment.data());
    if (failed != 0) return absl::ErrnoToStatus(failed, absl::StrCat("cannot start ", command.program));
    return child;
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

absl::StatusOr<pid_t> Start(const ChildCommand& command, const Fd& order, const Fd& answer) {
  SpawnSettings settings;
  settings.Give(order, kOrderFd);
  settings.Discard(STDOUT_FILENO);
  settings.Discard(STDERR_FILENO);
  if (command.most_answer_bytes > 0)
    settings.Give(answer, kAnswerFd);
  else
    settings.Discard(kAnswerFd);
  std::vector<Fd> files;
  for (const int fd : command.files) {
    LOCKSTEP_ASSIGN_OR_RETURN(Fd high, High(fd));
    settings.Give(high, kFirstFileFd + static_cast<int>(files.size()));
    files.push_back(std::move(high));
  }
  settings.CloseFrom(kFirstFileFd + static_cast<int>(files.size()));
  return settings.Spawn(command);
}

// Follows a child that was started.
class Watch {
 public:
  Watch(const ChildCommand& command, const std::atomic<bool>& stop)
      : command_(command), stop_(stop), until_(ReadMonotonic() + command.at_most) {}

  // Reads the answer to its end. Returns kExited if the child may end by itself, else the reason to kill it.
  ChildEnd::How Read(int fd, std::string& answer) const {
    char part[16 * 1024];
    while (true) {
      if (const ChildEnd::How how = Due(); how != ChildEnd::How::kExited) return how;
      pollfd poll = {fd, POLLIN, 0};
      if (::poll(&poll, 1, static_cast<int>(kCheckInterval.ns() / 1'000'000)) <= 0) continue;
      const ssize_t n = ::read(fd, part, sizeof(part));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return ChildEnd::How::kExited;
      answer.append(part, static_cast<size_t>(n));
      if (answer.size() > command_.most_answer_bytes) return ChildEnd::How::kLongAnswer;
    }
  }

  // Waits for the end of a child that has closed its answer. Returns like Read; `ended` is then true.
  ChildEnd::How WaitForEnd(pid_t child, int& status, bool& ended) const {
    while (true) {
      ended = ::waitpid(child, &status, WNOHANG) == child;
      if (ended) return ChildEnd::How::kExited;
      if (const ChildEnd::How how = Due(); how != ChildEnd::How::kExited) return how;
      const Nanos interval = command_.most_answer_bytes > 0 ? kEndCheckInterval : kCheckInterval;
      ::usleep(static_cast<useconds_t>(interval.ns() / 1000));
    }
  }

 private:
  ChildEnd::How Due() const {
    if (stop_.load()) return ChildEnd::How::kStopped;
    return ReadMonotonic() >= until_ ? ChildEnd::How::kTimedOut : ChildEnd::How::kExited;
  }

  const ChildCommand& command_;
  const std::atomic<bool>& stop_;
  const MonoTime until_;
};

}  // namespace

absl::StatusOr<ChildEnd> RunChild(const ChildCommand& command, const std::atomic<bool>& stop) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Fd order, FileWith(command.order));
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe answer, MakePipe());
  const Watch watch(command, stop);
  LOCKSTEP_ASSIGN_OR_RETURN(const pid_t child, Start(command, order, answer.write));
  answer.write.reset();
  ChildEnd end;
  int status = 0;
  bool ended = false;
  if (command.most_answer_bytes > 0) end.how = watch.Read(answer.read.get(), end.answer);
  if (end.how == ChildEnd::How::kExited) end.how = watch.WaitForEnd(child, status, ended);
  if (end.how != ChildEnd::How::kExited) {
    ::kill(-child, SIGKILL);
    // It may have left its process group.
    ::kill(child, SIGKILL);
  }
  while (!ended) ended = ::waitpid(child, &status, 0) == child || errno != EINTR;
  if (end.how != ChildEnd::How::kExited) return end;
  if (WIFSIGNALED(status)) end.how = ChildEnd::How::kSignalled;
  end.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return end;
}

}  // namespace lockstep::aggregator
