#include "daemon/clients/client_server.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/log/clean_text.h"
#include "base/rpc/status_macros.h"
#include "wire/ring/socket_io.h"

namespace lockstep::daemon {
namespace {

constexpr size_t kLargestPacket = sizeof(ring::Hello) + 1;  // one byte more, to detect a longer packet
constexpr int kPacketsPerTurn = 64;
constexpr char kEnded[] = "the process ended";

// `least` is the message's length in the oldest layout of this major version. Fields that an older peer
// leaves out are 0; fields that a newer peer appends are ignored.
template <typename Message>
absl::Status Read(const std::byte* bytes, size_t length, size_t least, Message& message) {
  if (length < least) {
    return absl::InvalidArgumentError(
        absl::StrCat("message has ", length, " bytes; expected at least ", least));
  }
  message = Message{};
  std::memcpy(&message, bytes, std::min(length, sizeof(message)));
  return absl::OkStatus();
}

// Describes a client that the kernel may have hidden from us, so rank and pid are its own claims.
std::string DescribeClient(const ring::Hello& hello) {
  const std::string_view variables(hello.identity, strnlen(hello.identity, sizeof(hello.identity)));
  const Identity identity = Identify({variables, {}, {}});
  return absl::StrCat("rank ", identity.rank, " (", FieldText(hello.program), ", pid ", hello.claimed_pid,
                      " in its own namespace)");
}

// Stores the client's report about CUPTI. Returns true if it changed.
bool NoteCupti(const ring::State& state, RegisteredProcess& process) {
  bool changed = false;
  if (state.cupti_version != 0 && process.cupti_version != state.cupti_version) {
    process.cupti_version = state.cupti_version;
    changed = true;
  }
  std::string holder = process.cupti_holder;
  if (state.state == ring::ClientState::kArmed) holder.clear();
  if (state.state == ring::ClientState::kFailed && state.refusal == ring::Refusal::kHeld) {
    holder = FieldText(state.holder);
    if (holder.empty()) holder = "another tool";
  }
  changed |= holder != process.cupti_holder;
  process.cupti_holder = std::move(holder);
  return changed;
}

}  // namespace

ClientServer::ClientServer(ClientServerOptions options, EventLoop& loop, const ProcessTable& processes,
                           const SchedulerJobs& jobs, Registry& registry, ConnectionAttempts& attempts,
                           DepartedRanks& departed, ClientEvents& events, Log& log)
    : options_(options),
      loop_(loop),
      processes_(processes),
      jobs_(jobs),
      registry_(registry),
      attempts_(attempts),
      departed_(departed),
      events_(events),
      log_(log),
      acceptor_(loop, log) {
  // The incarnations differ from those of an earlier daemon, so that its strings are not taken for ours.
  next_incarnation_ = static_cast<uint64_t>(SystemClock().Realtime().ns() / 1'000'000) << 20;
}

ClientServer::~ClientServer() {
  for (auto& [id, connection] : connections_) {
    loop_.Unwatch(connection.socket_watch);
    loop_.Unwatch(connection.pidfd_watch);
    loop_.Cancel(connection.hello_timer);
  }
}

absl::Status ClientServer::Start(ListeningSocket socket) {
  socket_.emplace(std::move(socket));
  return acceptor_.Start(socket_->fd(), [this](Fd connection) { Accept(std::move(connection)); });
}

absl::Status ClientServer::Admit(const Peer& peer) const {
  if (options_.owner != 0 && peer.uid != options_.owner) {
    return absl::PermissionDeniedError(absl::StrCat("this daemon belongs to user ", options_.owner));
  }
  const auto it = per_user_.find(peer.uid);
  const size_t same_user = it == per_user_.end() ? 0 : it->second;
  if (connections_.size() >= options_.most_clients || same_user >= options_.most_clients_per_user) {
    return absl::ResourceExhaustedError("the daemon's client limit is reached");
  }
  return absl::OkStatus();
}

void ClientServer::Accept(Fd socket) {
  const absl::StatusOr<Peer> peer = PeerOf(socket.get());
  if (!peer.ok()) return;
  if (const absl::Status admitted = Admit(*peer); !admitted.ok()) {
    SendRefuse(socket.get(), std::string(admitted.message()));
    NoteRefused(*peer, "", admitted);
    return;
  }
  const ConnectionId id = next_connection_++;
  Connection& connection = connections_[id];
  connection.peer = *peer;
  ++per_user_[peer->uid];
  connection.socket = std::move(socket);
  connection.pidfd = OpenPidFd(peer->pid);
  const auto watch = loop_.Watch(connection.socket.get(), [this, id] { OnReadable(id); });
  if (!watch.ok()) return Close(id, std::string(watch.status().message()));
  connection.socket_watch = *watch;
  if (connection.pidfd.ok()) {
    // A forked child may hold the socket open after the process has ended.
    const auto death = loop_.Watch(connection.pidfd.get(), [this, id] { Close(id, kEnded); });
    if (death.ok()) connection.pidfd_watch = *death;
  }
  connection.hello_timer = loop_.After(options_.hello_timeout, [this, id] {
    Refuse(id, absl::DeadlineExceededError("the client sent no hello in time"));
  });
}

void ClientServer::OnReadable(ConnectionId id) {
  std::array<std::byte, kLargestPacket> buffer;
  for (int i = 0; i < kPacketsPerTurn; ++i) {
    // OnPacket may have closed the connection.
    const auto it = connections_.find(id);
    if (it == connections_.end()) return;
    size_t length = 0;
    Fd descriptor;
    switch (
        ring::ReceivePacket(it->second.socket.get(), buffer.data(), buffer.size(), &length, &descriptor)) {
      case ring::PacketStatus::kOk:
        break;
      case ring::PacketStatus::kNothing:
        return;
      case ring::PacketStatus::kTooLarge:
        return Refuse(id, absl::InvalidArgumentError("the message is too long"));
      case ring::PacketStatus::kClosed:
        return Close(id, "it closed the connection");
      case ring::PacketStatus::kError:
        return Close(id, absl::StrCat("its connection failed (", std::strerror(errno), ")"));
    }
    it->second.received_packet = true;
    const absl::Status status = OnPacket(it->second, buffer.data(), length, std::move(descriptor));
    if (!status.ok()) return Refuse(id, status);
  }
}

absl::Status ClientServer::OnPacket(Connection& connection, const std::byte* bytes, size_t length,
                                    Fd descriptor) {
  ring::MessageHeader header{};
  if (length < sizeof(header)) return absl::InvalidArgumentError("the message is shorter than its header");
  std::memcpy(&header, bytes, sizeof(header));
  if (header.magic != ring::kHandshakeMagic || header.bytes != length) {
    return absl::InvalidArgumentError("the message does not begin with the protocol's header");
  }
  if (header.type == ring::MessageType::kHello && !connection.registered) {
    ring::Hello hello{};
    LOCKSTEP_RETURN_IF_ERROR(Read(bytes, length, sizeof(hello), hello));
    return OnHello(connection, hello);
  }
  if (header.type == ring::MessageType::kPresence && !connection.registered) {
    ring::Presence presence{};
    LOCKSTEP_RETURN_IF_ERROR(Read(bytes, length, sizeof(presence), presence));
    return OnPresence(connection, presence);
  }
  if (header.type == ring::MessageType::kState && connection.registered) {
    ring::State state{};
    LOCKSTEP_RETURN_IF_ERROR(Read(bytes, length, ring::kStateBytes_1_0, state));
    OnState(connection, state);
    return absl::OkStatus();
  }
  if (header.type == ring::MessageType::kProfile && connection.registered) {
    ring::Profile profile{};
    LOCKSTEP_RETURN_IF_ERROR(Read(bytes, length, sizeof(profile), profile));
    events_.OnClientProfile(connection.process, profile, std::move(descriptor));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("message type ", static_cast<uint32_t>(header.type),
                                                 " is not allowed ",
                                                 connection.registered ? "after" : "before", " the hello"));
}

void ClientServer::OnState(Connection& connection, const ring::State& state) {
  RegisteredProcess* process = registry_.Find(connection.process);
  if (process != nullptr && NoteCupti(state, *process)) events_.OnRanksChanged();
  events_.OnClientState(connection.process, state);
}

absl::StatusOr<ProcessInfo> ClientServer::FindProcess(const Connection& connection) const {
  if (connection.peer.pid <= 0) {
    return absl::FailedPreconditionError(
        "the daemon cannot see its pid: run the container, or the daemon, in the host's pid namespace "
        "(hostPID)");
  }
  const std::optional<ProcessInfo> info = processes_.Find(connection.peer.pid);
  if (!info) {
    return absl::FailedPreconditionError(absl::StrCat("/proc does not show process ", connection.peer.pid,
                                                      ": it ended, or /proc hides it from the daemon"));
  }
  return *info;
}

absl::Status ClientServer::OnPresence(Connection& connection, const ring::Presence& presence) {
  loop_.Cancel(connection.hello_timer);
  // A process that the daemon cannot see is refused when it becomes a rank.
  const absl::StatusOr<ProcessInfo> info = FindProcess(connection);
  if (!info.ok() || connection.present) return absl::OkStatus();
  connection.present = true;
  connection.process = info->id;
  attempts_.NotePresent(
      {.uid = connection.peer.uid, .process = info->id, .program = FieldText(presence.program)});
  return absl::OkStatus();
}

absl::Status ClientServer::OnHello(Connection& connection, const ring::Hello& hello) {
  loop_.Cancel(connection.hello_timer);
  connection.who = DescribeClient(hello);
  if (hello.layout_major != ring::kLayoutMajor) {
    // The fields of Hello up to `version` have the same place in every layout.
    return absl::FailedPreconditionError(absl::StrCat(
        "the client is version ", FieldText(hello.version), " and speaks layout ", hello.layout_major,
        ", the daemon is ", LOCKSTEP_VERSION, " and speaks ", ring::kLayoutMajor, ": install ",
        hello.layout_major < ring::kLayoutMajor ? "the daemon's release of lockstep-client where the job runs"
                                                : "the client's release of lockstep-daemon on this node"));
  }
  LOCKSTEP_RETURN_IF_ERROR(Register(connection, hello));

  ring::Welcome welcome{};
  welcome.header = {ring::kHandshakeMagic, ring::MessageType::kWelcome, sizeof(welcome)};
  welcome.layout_major = ring::kLayoutMajor;
  welcome.layout_minor = std::min(hello.layout_minor, ring::kLayoutMinor);
  welcome.segment_bytes = connection.segment->bytes();
  welcome.incarnation = connection.segment->incarnation();
  welcome.epoch = options_.segment.epoch;
  if (ring::SendPacket(connection.socket.get(), &welcome, sizeof(welcome), connection.segment->fd()) !=
      ring::PacketStatus::kOk) {
    return absl::UnavailableError("the welcome could not be sent");
  }
  events_.OnRanksChanged();
  return absl::OkStatus();
}

absl::Status ClientServer::Register(Connection& connection, const ring::Hello& hello) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ProcessInfo info, FindProcess(connection));
  const std::optional<ProcessInfo> parent = processes_.Find(info.parent_pid);
  const std::string variables(hello.identity, strnlen(hello.identity, sizeof(hello.identity)));
  Identity identity = Identify({variables, info.id, parent ? parent->id : ProcessId{}});
  LOCKSTEP_RETURN_IF_ERROR(jobs_.ApplyTo(info, connection.peer.uid, identity));
  ring::SegmentOptions options = options_.segment;
  options.incarnation = next_incarnation_++;
  LOCKSTEP_ASSIGN_OR_RETURN(connection.segment, DaemonSegment::Create(options));

  // A process after exec, or a client that lost its connection, registers again under the same id.
  if (const auto before = by_process_.find(info.id); before != by_process_.end()) {
    Close(before->second, "it reconnected");
  }
  RegisteredProcess process;
  process.id = info.id;
  process.uid = connection.peer.uid;
  process.identity = std::move(identity);
  process.program = FieldText(hello.program);
  process.client_version = FieldText(hello.version);
  process.layout_minor = hello.layout_minor;
  process.cupti_version = hello.cupti_version;
  const RegisteredProcess& entry = registry_.Add(std::move(process));

  departed_.Remove(info.id);
  attempts_.NoteAdmitted(info.id.pid);
  attempts_.NoteAbsent(info.id);
  connection.present = false;
  connection.registered = true;
  connection.process = info.id;
  for (const auto& [id, other] : connections_) {
    if (&other == &connection) by_process_[info.id] = id;
  }
  log_.Info("client_registered", {{"pid", info.id.pid},
                                  {"uid", entry.uid},
                                  {"job", entry.identity.job},
                                  {"rank", entry.identity.rank},
                                  {"world", entry.identity.world_size},
                                  {"by", entry.identity.rank_source},
                                  {"incarnation", entry.incarnation},
                                  {"program", entry.program}});
  return absl::OkStatus();
}

void ClientServer::SendRefuse(int socket, const std::string& reason) {
  ring::Refuse refuse{};
  refuse.header = {ring::kHandshakeMagic, ring::MessageType::kRefuse, sizeof(refuse)};
  const std::string cut = CleanText(reason, sizeof(refuse.reason) - 1);
  std::memcpy(refuse.reason, cut.data(), cut.size());
  ring::SendPacket(socket, &refuse, sizeof(refuse));
}

void ClientServer::Refuse(ConnectionId id, const absl::Status& why) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  SendRefuse(it->second.socket.get(), std::string(why.message()));
  NoteRefused(it->second.peer, it->second.who, why);
  Close(id, absl::StrCat("it violated the protocol (", why.message(), ")"));
}

void ClientServer::NoteRefused(const Peer& peer, const std::string& who, const absl::Status& why) {
  ++refused_[why.code()];
  log_.Warning("client_refused",
               {{"uid", peer.uid}, {"pid", peer.pid}, {"who", who}, {"reason", why.message()}});
  const std::string process = peer.pid > 0 ? absl::StrCat("pid ", peer.pid) : "a process";
  attempts_.NoteRefused({.uid = peer.uid,
                         .pid = peer.pid,
                         .who = absl::StrCat(who, who.empty() ? "" : ", ", process, " of user ", peer.uid),
                         .reason = std::string(why.message())});
}

void ClientServer::Close(ConnectionId id, const std::string& why) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  loop_.Unwatch(it->second.socket_watch);
  loop_.Unwatch(it->second.pidfd_watch);
  loop_.Cancel(it->second.hello_timer);
  const Connection connection = std::move(it->second);
  connections_.erase(it);
  const auto user = per_user_.find(connection.peer.uid);
  if (user != per_user_.end() && --user->second == 0) per_user_.erase(user);
  if (connection.present) attempts_.NoteAbsent(connection.process);
  if (!connection.registered) {
    const std::optional<ProcessInfo> info =
        connection.received_packet ? std::nullopt : processes_.Find(connection.peer.pid);
    if (info) attempts_.NoteProbe(info->id);
    return;
  }
  by_process_.erase(connection.process);
  log_.Info("client_gone", {{"pid", connection.process.pid}, {"reason", why}});
  if (const RegisteredProcess* process = registry_.Find(connection.process))
    departed_.Add(*process, why, connection.segment->Progress(), connection.segment->Log(HostTime()));
  events_.OnClientGone(connection.process, why);
  registry_.Remove(connection.process);
  events_.OnRanksChanged();
}

bool ClientServer::SendBytes(const ProcessId& process, const void* bytes, size_t length) {
  const auto it = by_process_.find(process);
  if (it == by_process_.end()) return false;
  const ConnectionId id = it->second;
  const ring::PacketStatus status = ring::SendPacket(connections_.at(id).socket.get(), bytes, length);
  if (status == ring::PacketStatus::kOk) return true;
  // Posted, because the caller is updating a capture's state.
  loop_.Post([this, id] { Close(id, "it does not accept messages"); });
  return false;
}

void ClientServer::Disconnect(const ProcessId& process, const std::string& why) {
  const auto it = by_process_.find(process);
  if (it != by_process_.end()) Close(it->second, why);
}

std::shared_ptr<DaemonSegment> ClientServer::SegmentOf(const ProcessId& process) const {
  const auto it = by_process_.find(process);
  return it == by_process_.end() ? nullptr : connections_.at(it->second).segment;
}

}  // namespace lockstep::daemon
