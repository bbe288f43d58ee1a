#include "base/rpc/munge.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/fd.h"
#include "base/rpc/status_macros.h"

extern char** environ;

namespace lockstep::rpc {
namespace {

// MUNGE rejects a credential here that was made for another service.
constexpr char kPurpose[] = "lockstep-control";
constexpr char kLifetime[] = "--ttl=60";  // seconds
constexpr size_t kLongestCredential = 4096;

using SteadyTime = std::chrono::steady_clock::time_point;

struct Pipe {
  Fd read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot create a pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

struct Ended {
  bool well = false;
  std::string out;  // stdout and stderr, in their order
};

// Returns nullopt if the writer has not closed the pipe by `until`, or writes too much.
std::optional<std::string> ReadAll(int fd, SteadyTime until) {
  std::string text;
  char buffer[1024];
  while (text.size() < 4 * kLongestCredential) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now())
            .count();
    pollfd poll = {fd, POLLIN, 0};
    const int ready = left <= 0 ? 0 : ::poll(&poll, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    const ssize_t n = ::read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
  return std::nullopt;
}

// Returns a file with `text`. A pipe would raise SIGPIPE if the program ended without reading it.
absl::StatusOr<Fd> FileWith(const std::string& text) {
  Fd file(::memfd_create("lockstep-munge", MFD_CLOEXEC));
  if (!file.ok() || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0) {
    return absl::ErrnoToStatus(errno, "cannot create a memory file");
  }
  return file;
}

// Runs a program to its end. It kills the program after `timeout`.
absl::StatusOr<Ended> Run(const std::vector<std::string>& words, const std::string& input, Nanos timeout) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Fd in, FileWith(input));
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  posix_spawn_file_actions_adddup2(&streams, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&streams, out.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&streams, out.write.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, argv[0], &streams, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&streams);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return absl::ErrnoToStatus(failed, absl::StrCat("cannot run ", words[0]));
  out.write.reset();
  const SteadyTime until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout.ns());
  std::optional<std::string> said = ReadAll(out.read.get(), until);
  if (!said) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!said)
    return absl::DeadlineExceededError(
        absl::StrCat(words[0], " did not end in time: check that munged responds"));
  return Ended{WIFEXITED(status) && WEXITSTATUS(status) == 0, *std::move(said)};
}

std::vector<std::string> Words(const std::string& program, const std::string& socket) {
  std::vector<std::string> words = {program};
  if (!socket.empty()) words.push_back(absl::StrCat("--socket=", socket));
  return words;
}

bool LooksLikeACredential(const std::string& text) {
  return !text.empty() && text.size() <= kLongestCredential &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

// `output` is that of unmunge.
absl::Status Rejected(const std::string& output) {
  const std::string said(
      absl::StripAsciiWhitespace(output.substr(0, std::min<size_t>(output.find('\n'), 200))));
  return absl::UnauthenticatedError(absl::StrCat("MUNGE rejected the credential: ", said));
}

}  // namespace

absl::StatusOr<uid_t> ParseUnmunged(const std::string& output) {
  // The output has lines of "NAME:  value", then an empty line, then the payload of the credential.
  const size_t head = output.find("\n\n");
  const std::string payload =
      head == std::string::npos ? "" : std::string(absl::StripAsciiWhitespace(output.substr(head)));
  int found = 0;
  uid_t uid = 0;
  for (const absl::string_view line : absl::StrSplit(output.substr(0, head), '\n')) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (field.first == "UID" && absl::SimpleAtoi(field.second, &uid)) ++found;
  }
  if (found != 1) return Rejected(output);
  if (payload != kPurpose)
    return absl::UnauthenticatedError("the MUNGE credential was made for another service");
  return uid;
}

absl::StatusOr<std::string> MungePrograms::Make() const {
  std::vector<std::string> words = Words(settings_.munge, settings_.socket);
  for (const char* word : {"--string", kPurpose, kLifetime}) words.emplace_back(word);
  absl::StatusOr<Ended> ended = Run(words, "", settings_.timeout);
  if (!ended.ok()) return absl::UnavailableError(ended.status().message());
  const std::string text(absl::StripAsciiWhitespace(ended->out));
  if (!ended->well || !LooksLikeACredential(text))
    return absl::UnavailableError(absl::StrCat("munge failed: ", text));
  return text;
}

absl::StatusOr<uid_t> MungePrograms::Read(const std::string& credential) const {
  if (!LooksLikeACredential(credential))
    return absl::UnauthenticatedError("the request holds no valid MUNGE credential");
  std::vector<std::string> words = Words(settings_.unmunge, settings_.socket);
  for (const char* word : {"--numeric", "--keys=STATUS,UID"}) words.emplace_back(word);
  LOCKSTEP_ASSIGN_OR_RETURN(const Ended ended, Run(words, credential, settings_.timeout));
  if (!ended.well) return Rejected(ended.out);
  return ParseUnmunged(ended.out);
}

}  // namespace lockstep::rpc
