#include "daemon/ras/ras_query.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "base/rpc/status_macros.h"

namespace lockstep::daemon {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr size_t kLongestLine = 256;
constexpr int kProtocol = 2;  // of NCCL 2.24 to 2.30
// A RAS that asks unresponsive processes needs its own time limit twice.
constexpr int64_t kLegs = 2;

SteadyTime After(Nanos time) {
  return std::chrono::steady_clock::now() + std::chrono::nanoseconds(time.ns());
}
Nanos Until(SteadyTime deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now());
  return Nanos(std::max<int64_t>(left.count(), 0));
}

// kDeadlineExceeded: it does not answer; another connection may.
class Connection {
 public:
  static absl::StatusOr<Connection> Open(const Loopback& address, SteadyTime deadline) {
    Connection made;
    sockaddr_storage to;
    const socklen_t length = address.ToSocketAddress(to);
    made.socket_ = Fd(::socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!made.socket_.ok()) return absl::UnavailableError("this node has no such address");
    if (::connect(made.socket_.get(), reinterpret_cast<const sockaddr*>(&to), length) == 0) return made;
    if (errno != EINPROGRESS) return absl::UnavailableError("the connection was refused");
    LOCKSTEP_RETURN_IF_ERROR(made.Wait(POLLOUT, deadline));
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(made.socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return absl::UnavailableError("the connection was refused");
    return made;
  }

  uint16_t own_port() const {
    sockaddr_storage own = {};
    socklen_t length = sizeof(own);
    ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&own), &length);
    // The port is at the same place in both families.
    return ntohs(reinterpret_cast<const sockaddr_in&>(own).sin_port);
  }

  absl::Status Send(std::string_view line, SteadyTime deadline) {
    while (!line.empty()) {
      const ssize_t sent = ::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        line.remove_prefix(static_cast<size_t>(sent));
      } else if (errno == EAGAIN || errno == EINTR) {
        LOCKSTEP_RETURN_IF_ERROR(Wait(POLLOUT, deadline));
      } else {
        return Closed();
      }
    }
    return absl::OkStatus();
  }

  // Returns the line without its end.
  absl::StatusOr<std::string> ReadLine(SteadyTime deadline) {
    while (true) {
      if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return line;
      }
      if (buffer_.size() > kLongestLine) return NotRas();
      LOCKSTEP_ASSIGN_OR_RETURN(const bool more, Read(deadline));
      if (!more) return Closed();
    }
  }

  // Returns all up to the end. kOutOfRange: it is longer than `most`.
  absl::StatusOr<std::string> ReadRest(size_t most, SteadyTime deadline) {
    while (buffer_.size() <= most) {
      LOCKSTEP_ASSIGN_OR_RETURN(const bool more, Read(deadline));
      if (!more) return std::move(buffer_);
    }
    return absl::OutOfRangeError(absl::StrCat("the answer is longer than ", most, " bytes"));
  }

  static absl::Status NotRas() {
    return absl::InvalidArgumentError("the program that listens there does not speak RAS's protocol");
  }

 private:
  static absl::Status Closed() { return absl::UnavailableError("the connection ended early"); }

  absl::Status Wait(short events, SteadyTime deadline) const {
    while (true) {
      const int64_t left_ms = Until(deadline).ns() / 1'000'000;
      if (left_ms <= 0) return absl::DeadlineExceededError("it does not answer in time");
      pollfd poll = {.fd = socket_.get(), .events = events, .revents = 0};
      if (::poll(&poll, 1, static_cast<int>(left_ms)) > 0) return absl::OkStatus();
    }
  }

  // Returns false at the end.
  absl::StatusOr<bool> Read(SteadyTime deadline) {
    char bytes[16 << 10];
    while (true) {
      LOCKSTEP_RETURN_IF_ERROR(Wait(POLLIN, deadline));
      const ssize_t read = ::recv(socket_.get(), bytes, sizeof(bytes), 0);
      if (read > 0) {
        buffer_.append(bytes, static_cast<size_t>(read));
        return true;
      }
      if (read == 0) return false;
      if (errno != EAGAIN && errno != EINTR) return Closed();
    }
  }

  Fd socket_;
  std::string buffer_;
};

enum class Format : uint8_t { kJson, kText };

class Query {
 public:
  Query(uid_t owner, const RasLimits& limits, const TcpTableReader& table)
      : owner_(owner), limits_(limits), table_(table), deadline_(After(limits.within)) {}

  absl::StatusOr<v1::RasAnswer> Ask(const Loopback& address, Format format) {
    LOCKSTEP_ASSIGN_OR_RETURN(Connection connection, Greet(address));
    v1::RasAnswer answer;
    const int64_t seconds = std::max<int64_t>(Until(deadline_).ns() / (kLegs * 1'000'000'000), 1);
    LOCKSTEP_ASSIGN_OR_RETURN(std::string reply, Command(connection, absl::StrCat("TIMEOUT ", seconds)));
    if (format == Format::kJson) {
      // NCCL before 2.28.7 does not know the command, and answers an error.
      LOCKSTEP_ASSIGN_OR_RETURN(reply, Command(connection, "SET FORMAT json"));
      answer.set_is_json(reply == "OK");
    }
    LOCKSTEP_RETURN_IF_ERROR(connection.Send("VERBOSE STATUS\n", deadline_));
    LOCKSTEP_ASSIGN_OR_RETURN(*answer.mutable_text(), connection.ReadRest(limits_.answer_bytes, deadline_));
    return answer;
  }

 private:
  absl::StatusOr<std::string> Command(Connection& connection, const std::string& command) const {
    LOCKSTEP_RETURN_IF_ERROR(connection.Send(command + "\n", deadline_));
    LOCKSTEP_ASSIGN_OR_RETURN(std::string reply, connection.ReadLine(deadline_));
    if (reply != "OK" && !absl::StartsWith(reply, "ERROR")) return Connection::NotRas();
    return reply;
  }

  // Returns a connection to a process that answers.
  absl::StatusOr<Connection> Greet(const Loopback& address) const {
    absl::StatusOr<Connection> greeted = absl::DeadlineExceededError("it does not answer in time");
    for (int i = 0; i < limits_.most_connections && absl::IsDeadlineExceeded(greeted.status()); ++i) {
      greeted = TryGreet(address);
    }
    return greeted;
  }

  absl::StatusOr<Connection> TryGreet(const Loopback& address) const {
    const SteadyTime deadline = std::min(deadline_, After(limits_.first_line_within));
    LOCKSTEP_ASSIGN_OR_RETURN(Connection connection, Connection::Open(address, deadline));
    LOCKSTEP_RETURN_IF_ERROR(connection.Send(absl::StrCat("CLIENT PROTOCOL ", kProtocol, "\n"), deadline));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string reply, connection.ReadLine(deadline));
    if (!absl::StartsWith(reply, "SERVER PROTOCOL ")) return Connection::NotRas();
    // It has accepted the connection, so the kernel shows its user. The listener may be another one than
    // before.
    if (table_(address.family).UserOfPeer(address, connection.own_port()) != owner_)
      return absl::PermissionDeniedError("another user's program answers there");
    return connection;
  }

  const uid_t owner_;
  const RasLimits& limits_;
  const TcpTableReader& table_;
  const SteadyTime deadline_;
};

}  // namespace

v1::RasAnswer AskRas(const RasPlace& place, uid_t owner, const RasLimits& limits,
                     const TcpTableReader& table) {
  Query query(owner, limits, table);
  absl::Status problem = absl::NotFoundError(
      "no process listens there: NCCL is older than 2.24 or has no communicator yet, RAS is off, or the "
      "rank has a network of its own");
  for (const Loopback& address : place.addresses) {
    const std::vector<uid_t> users = table(address.family).ListenersOn(address);
    if (users.empty()) continue;
    if (users != std::vector<uid_t>{owner}) {
      problem = absl::PermissionDeniedError("another user's program listens there");
      continue;
    }
    absl::StatusOr<v1::RasAnswer> answer = query.Ask(address, Format::kJson);
    // The text is far shorter.
    if (absl::IsOutOfRange(answer.status())) answer = query.Ask(address, Format::kText);
    if (answer.ok()) {
      answer->set_address(place.name);
      return *std::move(answer);
    }
    problem = answer.status();
  }
  v1::RasAnswer failed;
  failed.set_address(place.name);
  failed.set_problem(std::string(problem.message()));
  return failed;
}

}  // namespace lockstep::daemon
