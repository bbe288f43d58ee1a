#include "cli/commands/detach.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "cli/common/command.h"

namespace lockstep::cli {
namespace {

// Redirects the standard streams to the log. The caller of the command must not wait for our end, and the
// terminal may be closed.
void Leave(const std::string& folder) {
  std::fflush(stdout);
  std::fflush(stderr);
  const std::string log = folder + ".log";
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const Fd out(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
  ::dup2(null.get(), 0);
  ::dup2(out.ok() ? out.get() : null.get(), 1);
  ::dup2(out.ok() ? out.get() : null.get(), 2);
}

}  // namespace

ExitCode Detach(const std::function<ExitCode(const std::function<void(const std::string&)>&)>& work) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0)
    return Fail(ExitCode::kFailed, absl::StrCat("cannot create a pipe: ", std::strerror(errno)));
  Fd in(pipe[0]), out(pipe[1]);
  const pid_t child = ::fork();
  if (child < 0)
    return Fail(ExitCode::kFailed, absl::StrCat("cannot start a process: ", std::strerror(errno)));
  if (child == 0) {
    in.reset();
    ::setsid();
    const ExitCode code = work([&](const std::string& folder) {
      Leave(folder);
      const std::string line = absl::StrCat("+", folder);
      if (::write(out.get(), line.data(), line.size()) < 0) out.reset();
      out.reset();
    });
    std::fflush(stdout);
    std::fflush(stderr);
    const std::string line = absl::StrCat(static_cast<int>(code));
    if (out.ok() && ::write(out.get(), line.data(), line.size()) < 0) out.reset();
    std::_Exit(static_cast<int>(code));
  }
  out.reset();
  std::string said;
  char buffer[512];
  while (true) {
    const ssize_t n = ::read(in.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    said.append(buffer, static_cast<size_t>(n));
  }
  if (!said.empty() && said[0] == '+') {
    const std::string folder = said.substr(1);
    PrintMessage(absl::StrCat("process ", child, " continues in the background and will write ", folder,
                              "; its log is ", folder, ".log"));
    return ExitCode::kDone;
  }
  return said.empty() ? ExitCode::kFailed : static_cast<ExitCode>(std::atoi(said.c_str()));
}

}  // namespace lockstep::cli
