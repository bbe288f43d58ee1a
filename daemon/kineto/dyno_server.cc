#include "daemon/kineto/dyno_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/rpc/peer_user.h"
#include "base/rpc/status_macros.h"
#include "daemon/kineto/kineto_protocol.h"
#include "daemon/node/version.h"
#include "simdjson.h"

namespace lockstep::daemon {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

std::string Text(const object& call, std::string_view key) {
  std::string_view text;
  return call[key].get(text) == simdjson::SUCCESS ? std::string(text) : std::string();
}

// Returns `otherwise` if the value is not a number or does not fit.
int64_t Number(const element& value, int64_t otherwise) {
  constexpr double kExact = 9e15;
  int64_t whole = 0;
  if (value.get(whole) == simdjson::SUCCESS) return whole;
  double number = 0;
  return value.get(number) == simdjson::SUCCESS && std::abs(number) < kExact ? static_cast<int64_t>(number)
                                                                             : otherwise;
}
int64_t Number(const object& call, std::string_view key, int64_t otherwise) {
  element value;
  return call[key].get(value) == simdjson::SUCCESS ? Number(value, otherwise) : otherwise;
}

// `why` is a fixed sentence of ours, so it needs no escaping.
std::string Failed(const std::string& why) { return absl::StrCat("{\"error\":\"", why, "\"}"); }

std::string Pids(const std::vector<int32_t>& pids) {
  return absl::StrCat("[", absl::StrJoin(pids, ","), "]");
}

std::string AnswerTrigger(const object& call, uid_t caller, DynoHandler& handler) {
  DynoTrigger trigger;
  trigger.config = Text(call, "config");
  if (trigger.config.empty() || trigger.config.size() > kLargestKinetoConfig) {
    return Failed(absl::StrCat("config has ", trigger.config.size(), " bytes; it must have 1 to ",
                               kLargestKinetoConfig));
  }
  trigger.job = Number(call, "job_id", 0);
  trigger.most =
      static_cast<int32_t>(std::clamp<int64_t>(Number(call, "process_limit", trigger.most), 0, 4096));
  simdjson::dom::array pids;
  if (call["pids"].get(pids) == simdjson::SUCCESS) {
    for (const element& pid : pids) {
      const int64_t number = Number(pid, -1);
      trigger.pids.push_back(number < 0 || number > INT32_MAX ? -1 : static_cast<int32_t>(number));
    }
  }
  const DynoTriggered done = handler.Trigger(caller, trigger);
  return absl::StrCat("{\"processesMatched\":", Pids(done.matched),
                      ",\"eventProfilersTriggered\":[],\"activityProfilersTriggered\":", Pids(done.triggered),
                      ",\"eventProfilersBusy\":0,\"activityProfilersBusy\":", done.busy, "}");
}

}  // namespace

std::string AnswerDyno(const std::string& json, uid_t caller, DynoHandler& handler) {
  simdjson::dom::parser parser;
  object call;
  if (parser.parse(json).get(call) != simdjson::SUCCESS) return Failed("the call is not a JSON object");
  const std::string function = Text(call, "fn");
  if (function == "getStatus") return "{\"status\":1}";
  if (function == "getVersion") return absl::StrCat("{\"version\":\"", kDaemonVersion, "\"}");
  // The misspelling is dynolog's.
  if (function == "setKinetOnDemandRequest") return AnswerTrigger(call, caller, handler);
  return Failed(
      "the function is unknown: lockstepd supports getStatus, getVersion and setKinetOnDemandRequest");
}

DynoServer::~DynoServer() {
  while (!connections_.empty()) Close(connections_.begin()->first);
}

absl::Status DynoServer::Start(uint16_t port) {
  LOCKSTEP_RETURN_IF_ERROR(Listen(AF_INET, port));
  // A machine without IPv6 is served through IPv4 only.
  Listen(AF_INET6, port_).IgnoreError();
  return absl::OkStatus();
}

absl::Status DynoServer::Listen(int family, uint16_t port) {
  Fd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_storage address{};
  socklen_t length = 0;
  if (family == AF_INET) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    length = sizeof(v4);
  } else {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    v6.sin6_addr = in6addr_loopback;
    length = sizeof(v6);
  }
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 || listen(fd.get(), 16) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot listen on loopback port ", port, " for dyno: give another --dyno-port"));
  }
  length = sizeof(address);
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
  if (family == AF_INET) port_ = ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  Listener& listener = listeners_.emplace_back();
  listener.fd = std::move(fd);
  listener.acceptor = std::make_unique<Acceptor>(loop_, log_);
  return listener.acceptor->Start(listener.fd.get(),
                                  [this](Fd connection) { Accept(std::move(connection)); });
}

void DynoServer::Accept(Fd fd) {
  // A caller that the kernel does not identify gets no answer.
  const std::optional<uid_t> caller = rpc::PeerUser(fd.get());
  if (!caller || connections_.size() >= kMostConnections || CallsOf(*caller) >= kMostOfOneUser) return;
  const uint64_t id = next_id_++;
  const auto watch = loop_.Watch(fd.get(), [this, id] { OnReadable(id); });
  if (!watch.ok()) return;
  Connection& connection = connections_[id];
  connection.fd = std::move(fd);
  connection.caller = *caller;
  connection.watch = *watch;
  connection.timer = loop_.After(kCallTime, [this, id] { Close(id); });
}

size_t DynoServer::CallsOf(uid_t caller) const {
  return static_cast<size_t>(std::count_if(connections_.begin(), connections_.end(),
                                           [&](const auto& entry) { return entry.second.caller == caller; }));
}

void DynoServer::Close(uint64_t id) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  loop_.Unwatch(it->second.watch);
  loop_.Cancel(it->second.timer);
  connections_.erase(it);
}

void DynoServer::OnReadable(uint64_t id) {
  Connection& connection = connections_.at(id);
  char part[4096];
  const ssize_t n = recv(connection.fd.get(), part, sizeof(part), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return Close(id);
  connection.received.append(part, static_cast<size_t>(n));
  int32_t length = 0;
  if (connection.received.size() < sizeof(length)) return;
  std::memcpy(&length, connection.received.data(), sizeof(length));
  if (length < 0 || static_cast<size_t>(length) > kLargestCall) return Close(id);
  if (connection.received.size() < sizeof(length) + static_cast<size_t>(length)) return;
  const std::string json = AnswerDyno(connection.received.substr(sizeof(length), static_cast<size_t>(length)),
                                      connection.caller, handler_);
  const auto answer_length = static_cast<int32_t>(json.size());
  std::string answer(reinterpret_cast<const char*>(&answer_length), sizeof(answer_length));
  answer += json;
  // The answer fits any socket's buffer. A caller that does not read loses the rest.
  send(connection.fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  Close(id);
}

}  // namespace lockstep::daemon
