#include "base/rpc/connection_gate.h"

#include <grpcpp/security/server_credentials.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/read_clock.h"
#include "base/rpc/peer_user.h"
#include "base/rpc/socket_address.h"
#include "base/rpc/status_macros.h"

namespace lockstep::rpc {
namespace {

constexpr int kMostPerTurn = 64;
constexpr int kShortagePauseMs = 100;

PeerLimits LimitsOfProcess() {
  PeerLimits limits;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0)
    limits.strangers = std::clamp<size_t>(files.rlim_cur / 4, 16, limits.strangers);
  limits.strangers_per_source = std::min(limits.strangers_per_source, limits.strangers / 2);
  return limits;
}

struct Ends {
  std::string peer;     // as PeerText
  std::string network;  // of the peer
  bool same_machine = false;
};

// gRPC writes IPv4 addresses that an IPv6 socket received as IPv4 addresses.
void Unmap(sockaddr_storage& address) {
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  if (address.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = v6.sin6_port;
  std::memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, sizeof(v4.sin_addr));
  std::memcpy(&address, &v4, sizeof(v4));
}

// One machine usually has all IPv6 addresses with the same first 64 bits.
std::string NetworkOf(sockaddr_storage address) {
  if (address.ss_family == AF_INET6)
    std::memset(reinterpret_cast<sockaddr_in6&>(address).sin6_addr.s6_addr + 8, 0, 8);
  return HostText(address);
}

std::optional<Ends> EndsOf(int socket) {
  sockaddr_storage peer{};
  sockaddr_storage own{};
  socklen_t length = sizeof(peer);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return std::nullopt;
  length = sizeof(own);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) != 0) return std::nullopt;
  Unmap(peer);
  Unmap(own);
  Ends ends;
  ends.peer = HostAndPortText(peer);
  ends.network = NetworkOf(peer);
  ends.same_machine = HostText(peer) == HostText(own);
  return ends;
}

}  // namespace

std::string PeerText(const std::string& peer) {
  if (!absl::StartsWith(peer, "ipv")) return "";
  return absl::StrReplaceAll(peer.substr(peer.find(':') + 1), {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

ConnectionGate::ConnectionGate()
    : wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), peers_(LimitsOfProcess()) {}

void ConnectionGate::Attach(grpc::ServerBuilder& builder, const Security* tcp) {
  const auto add = [&builder](const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
    return builder.experimental().AddExternalConnectionAcceptor(Type::FROM_FD, credentials);
  };
  unix_acceptor_ = add(grpc::InsecureServerCredentials());
  if (tcp != nullptr) tcp_acceptor_ = add(tcp->server_credentials());
}

absl::StatusOr<int> ConnectionGate::Listen(const Address& address) {
  if (!address.is_unix() && tcp_acceptor_ == nullptr)
    return NotProtected(absl::StrCat("TCP port ", address.target()));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<Listener> opened, Listener::Open(address));
  const int port = opened.front().port();
  for (Listener& listener : opened) listeners_.push_back(std::move(listener));
  return port;
}

absl::Status ConnectionGate::Start() {
  if (!wakeup_.ok())
    return absl::ResourceExhaustedError("cannot create a descriptor: raise the limit of open files");
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void ConnectionGate::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(wakeup_.get(), &one, sizeof(one));
    thread_.join();
  }
  listeners_.clear();
  unix_acceptor_.reset();
  tcp_acceptor_.reset();
}

void ConnectionGate::Run() {
  bool shortage = false;
  while (true) {
    std::vector<pollfd> polls = {{wakeup_.get(), POLLIN, 0}};
    // poll() ignores a negative descriptor. A listener stays readable while no descriptor is free.
    for (const Listener& listener : listeners_) polls.push_back({shortage ? -1 : listener.fd(), POLLIN, 0});
    if (poll(polls.data(), polls.size(), shortage ? kShortagePauseMs : -1) < 0 && errno != EINTR) return;
    if (polls[0].revents != 0) return;
    shortage = false;
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (polls[i + 1].revents != 0 && !AcceptWaiting(listeners_[i])) shortage = true;
    }
  }
}

bool ConnectionGate::AcceptWaiting(const Listener& listener) {
  for (int i = 0; i < kMostPerTurn; ++i) {
    Fd socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.ok()) {
      if (errno == ECONNABORTED || errno == EINTR) continue;
      if (errno == EAGAIN) return true;
      MutexLock lock(&mutex_);
      ++shortages_;
      peers_.CloseOneStranger();
      return false;
    }
    if (!listener.is_unix() && !AddStranger(socket.get())) continue;
    {
      MutexLock lock(&mutex_);
      ++accepted_;
    }
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = listener.fd();
    connection.fd = socket.release();
    (listener.is_unix() ? unix_acceptor_ : tcp_acceptor_)->HandleNewConnection(&connection);
  }
  return true;
}

// Within this machine each user has a share of their own, so that one user cannot displace another.
bool ConnectionGate::AddStranger(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const std::optional<Ends> ends = EndsOf(socket);
  if (!ends) return false;  // it has ended
  const std::optional<uid_t> user = ends->same_machine ? PeerUser(socket) : std::nullopt;
  const PeerTable::Source source = user ? absl::StrCat(ends->network, " user ", *user) : ends->network;
  MutexLock lock(&mutex_);
  if (peers_.Add(socket, ends->peer, source, ReadMonotonic())) return true;
  ++refused_;
  return false;
}

absl::Status ConnectionGate::Trust(const std::string& peer, std::optional<uid_t> user) {
  const std::string text = PeerText(peer);
  if (text.empty()) return absl::OkStatus();
  MutexLock lock(&mutex_);
  return peers_.Trust(text, user);
}

void ConnectionGate::NoteRefused(const std::string& peer) {
  MutexLock lock(&mutex_);
  peers_.NoteRefused(PeerText(peer), ReadMonotonic());
}

std::string ConnectionGate::SourceOf(const std::string& peer) const {
  MutexLock lock(&mutex_);
  return peers_.SourceOf(PeerText(peer));
}

GateCounts ConnectionGate::counts() const {
  MutexLock lock(&mutex_);
  return {.strangers = peers_.strangers(),
          .trusted = peers_.trusted(),
          .accepted = accepted_,
          .displaced = peers_.displaced(),
          .unproven = peers_.closed_for_calls(),
          .refused = refused_,
          .shortages = shortages_};
}

}  // namespace lockstep::rpc
