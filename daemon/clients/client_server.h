// ClientServer serves the client socket: it accepts connections, speaks the handshake, and gives each process
// one segment and one registry entry.
//
// The main thread. No byte of a packet is trusted; the peer's identity comes from the kernel. A client that
// breaks the protocol receives the reason (Refuse) and is disconnected; others are not affected.
#ifndef LOCKSTEP_DAEMON_CLIENTS_CLIENT_SERVER_H_
#define LOCKSTEP_DAEMON_CLIENTS_CLIENT_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/log/log.h"
#include "daemon/clients/connection_attempts.h"
#include "daemon/clients/daemon_segment.h"
#include "daemon/clients/departed_ranks.h"
#include "daemon/loop/event_loop.h"
#include "daemon/node/acceptor.h"
#include "daemon/node/process.h"
#include "daemon/node/registry.h"
#include "daemon/node/scheduler_jobs.h"
#include "daemon/node/socket.h"
#include "wire/ring/handshake.h"
#include "wire/ring/segment.h"

namespace lockstep::daemon {

// Implemented by: ClientCapturePath, and tests.
class ClientEvents {
 public:
  virtual ~ClientEvents() = default;
  // The registry has changed: a process was added, changed or removed.
  virtual void OnRanksChanged() = 0;
  virtual void OnClientState(const ProcessId& process, const ring::State& state) = 0;
  // `file`: the descriptor as received, not validated, or none.
  virtual void OnClientProfile(const ProcessId& process, const ring::Profile& profile, Fd file) = 0;
  // Called before the process leaves the registry. `why` is continued with "while …".
  virtual void OnClientGone(const ProcessId& process, const std::string& why) = 0;
};

struct ClientServerOptions {
  ring::SegmentOptions segment;
  size_t most_clients = 2048;
  size_t most_clients_per_user = 512;
  Nanos hello_timeout = Nanos::Seconds(5);
  // Only processes of this user may register; with 0 (root's daemon), those of all users.
  uid_t owner = 0;
};

class ClientServer {
 public:
  // All references outlive this.
  ClientServer(ClientServerOptions options, EventLoop& loop, const ProcessTable& processes,
               const SchedulerJobs& jobs, Registry& registry, ConnectionAttempts& attempts,
               DepartedRanks& departed, ClientEvents& events, Log& log);
  ~ClientServer();

  // Accepts clients at `socket`.
  absl::Status Start(ListeningSocket socket);

  // Returns device and inode of the socket's file; nothing before Start.
  std::optional<std::pair<dev_t, ino_t>> socket_file() const {
    return socket_ ? std::optional(socket_->file()) : std::nullopt;
  }

  // Returns false if the process is not connected. A process that does not accept the message is also
  // disconnected.
  template <typename Message>
  bool Send(const ProcessId& process, const Message& message) {
    return SendBytes(process, &message, sizeof(message));
  }
  // Ends the process's capture as if it had disconnected. A living client reconnects.
  void Disconnect(const ProcessId& process, const std::string& why);
  // Returns null if the process is not connected.
  std::shared_ptr<DaemonSegment> SegmentOf(const ProcessId& process) const;

  size_t connections() const { return connections_.size(); }
  // Number of refused clients since the daemon started, by the status code of the reason.
  const std::map<absl::StatusCode, uint64_t>& refused() const { return refused_; }

 private:
  using ConnectionId = uint64_t;

  struct Connection {
    Fd socket;
    Fd pidfd;  // invalid if the kernel has no pidfds: then only the socket shows the process's end
    Peer peer;
    EventLoop::WatchId socket_watch = 0;
    EventLoop::WatchId pidfd_watch = 0;
    EventLoop::TimerId hello_timer = 0;
    bool registered = false;
    bool received_packet = false;  // a packet has arrived
    bool present = false;          // it has no CUDA context yet, and is not a rank
    std::string who;               // shown for a refused client
    ProcessId process;
    std::shared_ptr<DaemonSegment> segment;
  };

  void Accept(Fd socket);
  absl::Status Admit(const Peer& peer) const;
  void OnReadable(ConnectionId id);
  // A non-OK status refuses the connection with that reason.
  absl::Status OnPacket(Connection& connection, const std::byte* bytes, size_t length, Fd descriptor);
  absl::Status OnPresence(Connection& connection, const ring::Presence& presence);
  absl::Status OnHello(Connection& connection, const ring::Hello& hello);
  absl::Status Register(Connection& connection, const ring::Hello& hello);
  absl::StatusOr<ProcessInfo> FindProcess(const Connection& connection) const;
  void OnState(Connection& connection, const ring::State& state);
  void Refuse(ConnectionId id, const absl::Status& why);
  void NoteRefused(const Peer& peer, const std::string& who, const absl::Status& why);
  void Close(ConnectionId id, const std::string& why);
  bool SendBytes(const ProcessId& process, const void* bytes, size_t length);
  static void SendRefuse(int socket, const std::string& reason);

  const ClientServerOptions options_;
  std::optional<ListeningSocket> socket_;
  EventLoop& loop_;
  const ProcessTable& processes_;
  const SchedulerJobs& jobs_;
  Registry& registry_;
  ConnectionAttempts& attempts_;
  DepartedRanks& departed_;
  ClientEvents& events_;
  Log& log_;
  Acceptor acceptor_;
  std::map<ConnectionId, Connection> connections_;
  std::map<ProcessId, ConnectionId> by_process_;
  std::map<uid_t, size_t> per_user_;
  std::map<absl::StatusCode, uint64_t> refused_;
  ConnectionId next_connection_ = 1;
  uint64_t next_incarnation_ = 1;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CLIENTS_CLIENT_SERVER_H_
