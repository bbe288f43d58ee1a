#include "base/log/syslog_lines.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

// Facility authpriv (10) and severity info (6), as in RFC 3164.
constexpr int kPriority = 10 * 8 + 6;

}  // namespace

SyslogLines::SyslogLines(std::unique_ptr<LineSink> inner, std::string program, std::string socket,
                         LogSink log)
    : inner_(std::move(inner)),
      program_(std::move(program)),
      socket_(std::move(socket)),
      log_(std::move(log)) {}

int SyslogLines::Send(std::string_view line) {
  const std::string text = absl::StrCat("<", kPriority, ">", program_, "[", ::getpid(),
                                        "]: ", absl::string_view(line.data(), line.size()));
  // The log's daemon may have been restarted since the last line.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!fd_.ok()) {
      sockaddr_un to{};
      to.sun_family = AF_UNIX;
      if (socket_.size() >= sizeof(to.sun_path)) return ENAMETOOLONG;
      std::memcpy(to.sun_path, socket_.data(), socket_.size());
      fd_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!fd_.ok()) return errno;
      if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
        const int error = errno;
        fd_.reset();
        return error;
      }
    }
    if (::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()))
      return 0;
    const int error = errno;
    if (error == EAGAIN || error == EMSGSIZE) return error;
    fd_.reset();
    if (attempt == 1) return error;
  }
  return 0;
}

absl::Status SyslogLines::Append(std::string_view line) {
  if (absl::Status written = inner_->Append(line); !written.ok()) return written;
  const int error = Send(line);
  if (error != 0) {
    if (missing_++ == 0)
      log_(LogLevel::kError, "syslog_failed", {{"socket", socket_}, {"reason", std::strerror(error)}});
  } else if (missing_ > 0) {
    log_(LogLevel::kInfo, "syslog_works_again", {{"lines_missing", missing_}});
    missing_ = 0;
  }
  return absl::OkStatus();
}

}  // namespace lockstep
