#include "base/http/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/read_clock.h"
#include "base/rpc/address.h"
#include "base/rpc/socket_address.h"
#include "base/rpc/status_macros.h"

namespace lockstep {
namespace {

constexpr Nanos kNoDescriptorsPause = Nanos::Millis(100);
constexpr int kBacklog = 16;
// The most bytes that are read and discarded after the response. Without a limit, a caller that sends without
// end would keep the server busy.
constexpr size_t kMaxDiscardedBytes = 64u << 10;
// The most bytes of a file that are sent before the next connection has its turn.
constexpr uint64_t kMostAtOnce = 1u << 20;

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t length = 0;
  bool loopback = false;
};

absl::StatusOr<SocketAddress> Resolve(const rpc::Address& address, const std::string& flag) {
  SocketAddress out;
  auto& v4 = reinterpret_cast<sockaddr_in&>(out.bytes);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(out.bytes);
  const std::string host = address.host() == "localhost" ? "127.0.0.1" : address.host();
  const auto port = htons(static_cast<uint16_t>(address.port()));
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = port;
    out.length = sizeof(v4);
    out.loopback = (ntohl(v4.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
    return out;
  }
  if (!address.is_unix() && inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = port;
    out.length = sizeof(v6);
    out.loopback = IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
    return out;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", address.target(),
                   ": expected an IP address of this machine and a port, as in 127.0.0.1:9464"));
}

absl::StatusOr<Fd> Listen(SocketAddress& address, const HttpServerOptions& options) {
  Fd fd(socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.bytes), address.length) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot listen on ", options.address, ": give another ",
                                                   options.flag, " address"));
  }
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address.bytes), &address.length);
  return fd;
}

const char* Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 303:
      return "See Other";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 403:
      return "Forbidden";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Internal Server Error";
  }
}

}  // namespace

absl::Status HttpServer::CheckAddress(const std::string& address, const std::string& flag) {
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Address parsed, rpc::Address::Parse(address));
  return Resolve(parsed, flag).status();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options, Answer answer) {
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Address parsed, rpc::Address::Parse(options.address));
  LOCKSTEP_ASSIGN_OR_RETURN(SocketAddress address, Resolve(parsed, options.flag));
  if (!address.loopback && !options.check) {
    return absl::FailedPreconditionError(absl::StrCat(
        options.flag, " ", options.address,
        ": a port that other machines reach needs a token; give --token-file, or listen on 127.0.0.1"));
  }
  std::shared_ptr<tls::TlsServer> tls;
  if (!address.loopback) {
    LOCKSTEP_ASSIGN_OR_RETURN(tls, options.protect());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Fd listener, Listen(address, options));
  Fd wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup.ok())
    return absl::ErrnoToStatus(errno, "cannot create the event descriptor of the metrics thread");
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(options), std::move(answer), std::move(tls),
                                                    std::move(listener), std::move(wakeup),
                                                    rpc::HostAndPortText(address.bytes)));
}

HttpServer::HttpServer(HttpServerOptions options, Answer answer, std::shared_ptr<tls::TlsServer> tls,
                       Fd listener, Fd wakeup, std::string address)
    : options_(std::move(options)),
      answer_(std::move(answer)),
      tls_(std::move(tls)),
      listener_(std::move(listener)),
      wakeup_(std::move(wakeup)),
      address_(std::move(address)),
      thread_([this] { Run(); }) {}

HttpServer::~HttpServer() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(wakeup_.get(), &one, sizeof(one));
  thread_.join();
}

void HttpServer::Run() {
  std::vector<pollfd> polls;
  while (true) {
    const MonoTime now = ReadMonotonic();
    MonoTime until = connections_.empty() ? MonoTime::Max() : connections_.front().until;
    for (const Connection& connection : connections_) until = std::min(until, connection.until);
    const bool accepts = now >= accept_again_;
    if (!accepts) until = std::min(until, accept_again_);
    // poll() ignores a negative descriptor.
    polls.assign({{wakeup_.get(), POLLIN, 0}, {accepts ? listener_.get() : -1, POLLIN, 0}});
    for (const Connection& connection : connections_) {
      polls.push_back(
          {connection.stream->fd(),
           static_cast<short>(connection.answer.empty() && !connection.stream->wants_to_write() ? POLLIN
                                                                                                : POLLOUT),
           0});
    }
    const int wait_ms = until == MonoTime::Max()
                            ? -1
                            : static_cast<int>(std::max<int64_t>((until - now).ns() / 1'000'000 + 1, 0));
    if (poll(polls.data(), polls.size(), wait_ms) < 0 && errno != EINTR) return;
    if (polls[0].revents != 0) return;
    // Accept() follows only afterwards, because it changes the indices that polls and connections_ share.
    for (size_t i = connections_.size(); i-- > 0;) {
      if (polls[i + 2].revents == 0 || Turn(connections_[i])) continue;
      connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    CloseOverdue();
    if (polls[1].revents != 0) Accept();
  }
}

std::unique_ptr<HttpStream> HttpServer::StreamOver(Fd socket) const {
  if (tls_ == nullptr) return PlainHttpStream(std::move(socket));
  absl::StatusOr<std::unique_ptr<tls::TlsConnection>> tls = tls_->Accept(socket.get());
  return tls.ok() ? TlsHttpStream(std::move(socket), *std::move(tls)) : nullptr;
}

void HttpServer::Accept() {
  for (int i = 0; i < kBacklog; ++i) {
    SocketAddress peer;
    peer.length = sizeof(peer.bytes);
    Fd fd(accept4(listener_.get(), reinterpret_cast<sockaddr*>(&peer.bytes), &peer.length,
                  SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.ok()) {
      // The connection stays in the queue, so poll() would wake this thread at once, again and again.
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        accept_again_ = ReadMonotonic() + kNoDescriptorsPause;
      return;
    }
    std::unique_ptr<HttpStream> stream = StreamOver(std::move(fd));
    if (stream == nullptr) continue;
    if (connections_.size() >= options_.most_connections) {
      connections_.erase(connections_.begin());
      ++counts_.displaced;
    }
    Connection& connection = connections_.emplace_back();
    connection.stream = std::move(stream);
    connection.peer = rpc::HostAndPortText(peer.bytes);
    connection.until = ReadMonotonic() + options_.request_time;
  }
}

void HttpServer::CloseOverdue() {
  const MonoTime now = ReadMonotonic();
  const auto overdue = std::stable_partition(connections_.begin(), connections_.end(),
                                             [&](const Connection& c) { return c.until > now; });
  counts_.timed_out += static_cast<uint64_t>(
      std::count_if(overdue, connections_.end(), [](const Connection& c) { return !c.finished; }));
  connections_.erase(overdue, connections_.end());
}

bool HttpServer::Turn(Connection& connection) {
  if (!connection.answer.empty()) return Send(connection);
  if (!Receive(connection)) return false;
  if (connection.answered) return true;
  std::optional<HttpRequest> request = ParseHttpRequest(connection.received);
  if (!request) return true;
  request->peer = connection.peer;
  request->certificate = connection.stream->PeerChain();
  connection.answered = true;
  connection.received.clear();
  Respond(*request, connection);
  connection.until = ReadMonotonic() + options_.answer_time;
  return Send(connection);
}

bool HttpServer::Receive(Connection& connection) {
  char part[HttpStream::kMostRead];
  const ssize_t n = connection.stream->Read(part);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  if (connection.answered) {
    connection.discarded_bytes += static_cast<size_t>(n);
  } else {
    connection.received.append(part, static_cast<size_t>(n));
  }
  return connection.discarded_bytes <= kMaxDiscardedBytes;
}

bool HttpServer::Send(Connection& connection) {
  if (const size_t left = connection.answer.size() - connection.sent; left > 0) {
    const ssize_t n = connection.stream->Write(connection.answer.data() + connection.sent, left);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    connection.sent += static_cast<size_t>(n);
    if (connection.sent < connection.answer.size()) return true;
  }
  if (connection.file_left > 0) {
    const ssize_t n = connection.stream->WriteFile(connection.file.get(), connection.file_sent,
                                                   std::min(connection.file_left, kMostAtOnce));
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) return false;
    connection.file_sent += static_cast<uint64_t>(n);
    connection.file_left -= static_cast<uint64_t>(n);
    if (connection.file_left > 0) return true;
  }
  connection.answer = std::string();
  connection.file.reset();
  // An immediate close with unread bytes of the caller would make the kernel discard the response.
  connection.finished = true;
  return connection.stream->End();
}

std::string_view HttpServer::TokenOf(const HttpRequest& request) {
  constexpr absl::string_view kScheme = "bearer ";
  if (!absl::StartsWithIgnoreCase(request.authorization, kScheme)) return "";
  return std::string_view(request.authorization).substr(kScheme.size());
}

std::function<absl::Status(const HttpRequest&)> HttpServer::RequireToken(rpc::Token token) {
  return [token = std::move(token)](const HttpRequest& request) {
    return token.Matches(TokenOf(request))
               ? absl::OkStatus()
               : absl::UnauthenticatedError("the request needs the token (Authorization: Bearer)");
  };
}

void HttpServer::Respond(const HttpRequest& request, Connection& connection) {
  HttpResponse response;
  response.status = request.status;
  response.body = absl::StrCat(Reason(response.status), "\n");
  if (response.status == 200) {
    const absl::Status checked = options_.check ? options_.check(request) : absl::OkStatus();
    const int refusal = absl::IsPermissionDenied(checked) ? 403 : 401;
    response = checked.ok() ? answer_(request, counts_)
                            : HttpResponse{.status = refusal, .body = absl::StrCat(checked.message(), "\n")};
  }
  struct stat file {};
  if (response.file.ok() && (fstat(response.file.get(), &file) != 0 || !S_ISREG(file.st_mode))) {
    response = {.status = 404, .body = "no such file\n"};
    file = {};
  }
  ++counts_.answered[response.status];
  std::string text = absl::StrCat(
      "HTTP/1.1 ", response.status, " ", Reason(response.status), "\r\nContent-Type: ", response.content_type,
      "\r\nContent-Length: ", response.body.size() + static_cast<uint64_t>(file.st_size),
      "\r\nCache-Control: no-store\r\n", "X-Content-Type-Options: nosniff\r\nConnection: close\r\n",
      response.status == 401 ? "WWW-Authenticate: Bearer\r\n" : "",
      response.status == 405 ? "Allow: GET, HEAD\r\n" : "");
  for (const auto& [name, value] : response.headers) absl::StrAppend(&text, name, ": ", value, "\r\n");
  text += "\r\n";
  connection.answer = std::move(text);
  if (request.head) return;
  connection.answer += response.body;
  connection.file = std::move(response.file);
  connection.file_left = static_cast<uint64_t>(file.st_size);
}

}  // namespace lockstep
