#include "cli/commands/health.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/fd.h"
#include "base/rpc/status_macros.h"
#include "cli/common/command.h"

namespace lockstep::cli {
namespace {

// The page has one line. Who sends more is somebody else.
constexpr size_t kLongestAnswer = 16u << 10;

MonoTime Now() {
  timespec t = {};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return MonoTime(static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec);
}

class Conversation {
 public:
  Conversation(const HealthCall& call, Fd socket)
      : address_(call.address), until_(Now() + call.within), socket_(std::move(socket)) {}

  absl::Status Connect(const sockaddr* to, socklen_t length) {
    if (::connect(socket_.get(), to, length) != 0) {
      if (errno != EINPROGRESS) return Failed("nobody answers at");
      LOCKSTEP_RETURN_IF_ERROR(Wait(POLLOUT));
      socklen_t size = sizeof(errno);
      int error = 0;
      if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
        errno = error != 0 ? error : errno;
        return Failed("nobody answers at");
      }
    }
    return absl::OkStatus();
  }

  absl::Status Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
      if (n < 0 && errno == EAGAIN) LOCKSTEP_RETURN_IF_ERROR(Wait(POLLOUT));
      if (n < 0 && errno != EAGAIN && errno != EINTR) return Failed("cannot ask");
    }
    return absl::OkStatus();
  }

  // Until the other side closes.
  absl::StatusOr<std::string> Receive() {
    std::string all;
    char part[4096];
    while (true) {
      const ssize_t n = ::recv(socket_.get(), part, sizeof(part), 0);
      if (n == 0) return all;
      if (n > 0) all.append(part, static_cast<size_t>(n));
      if (all.size() > kLongestAnswer) {
        return absl::UnavailableError(
            absl::StrCat(address_, " is no /healthz of Lockstep's: it does not stop talking"));
      }
      if (n < 0 && errno == EAGAIN) LOCKSTEP_RETURN_IF_ERROR(Wait(POLLIN));
      if (n < 0 && errno != EAGAIN && errno != EINTR) return Failed("no answer from");
    }
  }

 private:
  absl::Status Failed(const char* what) const {
    return absl::UnavailableError(absl::StrCat(what, " ", address_, ": ", std::strerror(errno)));
  }
  absl::Status Wait(short events) {
    while (true) {
      const int64_t left_ms = (until_ - Now()).ns() / 1'000'000;
      if (left_ms <= 0) return absl::DeadlineExceededError(absl::StrCat(address_, " did not answer in time"));
      pollfd entry = {socket_.get(), events, 0};
      if (::poll(&entry, 1, static_cast<int>(left_ms)) > 0) return absl::OkStatus();
    }
  }

  const std::string address_;
  const MonoTime until_;
  Fd socket_;
};

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

absl::StatusOr<std::unique_ptr<addrinfo, FreeAddresses>> LookUp(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", address, "\" is no address: write 127.0.0.1:9464"));
  }
  std::string host = address.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
      error != 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot find ", address, ": ", ::gai_strerror(error)));
  }
  return std::unique_ptr<addrinfo, FreeAddresses>(found);
}

absl::StatusOr<std::string> ReadAnswer(const std::string& address, const std::string& answer) {
  const size_t line_end = answer.find("\r\n");
  const size_t body = answer.find("\r\n\r\n");
  if (!absl::StartsWith(answer, "HTTP/1.") || body == std::string::npos) {
    return absl::UnavailableError(absl::StrCat(address, " is no /healthz of Lockstep's"));
  }
  const std::string status = answer.substr(std::string_view("HTTP/1.1 ").size(), 3);
  if (status == "200") return std::string(absl::StripTrailingAsciiWhitespace(answer.substr(body + 4)));
  if (status == "401" || status == "403") {
    return absl::PermissionDeniedError(
        absl::StrCat(address, " wants another token: give the --token-file that it was started with"));
  }
  return absl::UnavailableError(absl::StrCat(address, " answers ", answer.substr(0, line_end)));
}

constexpr char kAbout[] =
    "Ask a daemon or an aggregator whether it works: exit code 0, and its one line.\n"
    "\n"
    "For whoever restarts what is dead: it asks /healthz of --metrics or --http, and brings the token, which "
    "a plain HTTP probe cannot\n"
    "(docs/kubernetes.md).\n"
    "\n"
    "Examples:\n"
    "  lockstep health 127.0.0.1:9464 --token-file /etc/lockstep/token\n"
    "  lockstep health 127.0.0.1:9465        with $LOCKSTEP_TOKEN_FILE\n";

struct Flags {
  std::string address;
  std::string token_file;
  double seconds = 5;
};

ExitCode Health(const Flags& flags) {
  HealthCall call{flags.address, rpc::Token(), Nanos(static_cast<int64_t>(flags.seconds * 1e9))};
  if (!flags.token_file.empty()) {
    absl::StatusOr<rpc::Token> token = rpc::Token::Load(flags.token_file);
    if (!token.ok()) return Fail(token.status());
    call.token = *std::move(token);
  }
  const absl::StatusOr<std::string> line = AskHealth(call);
  if (!line.ok()) return Fail(line.status());
  std::printf("%s\n", line->c_str());
  return ExitCode::kDone;
}

}  // namespace

absl::StatusOr<std::string> AskHealth(const HealthCall& call) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto addresses, LookUp(call.address));
  Fd socket(::socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.ok()) return absl::ErrnoToStatus(errno, "no socket");
  Conversation conversation(call, std::move(socket));
  LOCKSTEP_RETURN_IF_ERROR(conversation.Connect(addresses->ai_addr, addresses->ai_addrlen));
  std::string request = absl::StrCat("GET /healthz HTTP/1.1\r\nHost: ", call.address, "\r\n");
  if (!call.token.empty()) absl::StrAppend(&request, "Authorization: Bearer ", call.token.text(), "\r\n");
  LOCKSTEP_RETURN_IF_ERROR(conversation.Send(request + "\r\n"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string answer, conversation.Receive());
  return ReadAnswer(call.address, answer);
}

void AddHealth(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "health", kAbout);
  auto flags = std::make_shared<Flags>();
  sub->add_option("ADDRESS", flags->address, "HOST:PORT of the daemon's --metrics or the aggregator's --http")
      ->required();
  sub->add_option("--token-file", flags->token_file, "The secret that it was started with")
      ->envname("LOCKSTEP_TOKEN_FILE");
  sub->add_option("--within", flags->seconds, "Seconds to wait for the answer")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Health(*flags); }; });
}

}  // namespace lockstep::cli
