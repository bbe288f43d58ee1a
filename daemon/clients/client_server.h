// The client socket: who connects, the handshake, one segment and one registry entry per process.
//
// The main thread. Every byte of a packet is a claim; who the peer is comes from the kernel. A client that
// breaks the protocol is told why (Refuse) and disconnected; nothing else suffers.
#ifndef LOCKSTEP_DAEMON_CLIENT_SERVER_H_
#define LOCKSTEP_DAEMON_CLIENT_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/log/log.h"
#include "daemon/clients/connection_attempts.h"
#include "daemon/clients/daemon_segment.h"
#include "daemon/node/event_loop.h"
#include "daemon/node/process.h"
#include "daemon/node/registry.h"
#include "daemon/node/scheduler_jobs.h"
#include "daemon/node/socket.h"
#include "wire/ring/handshake.h"
#include "wire/ring/segment.h"

namespace lockstep::daemon {

// Implemented by: Daemon, and tests.
class ClientEvents {
 public:
  virtual ~ClientEvents() = default;
  // The registry has changed: a process came, changed or went.
  virtual void OnRanksChanged() = 0;
  virtual void OnClientState(const ProcessId& process, const ring::State& state) = 0;
  // `file`: as it came, or none; nobody has looked at it.
  virtual void OnClientProfile(const ProcessId& process, const ring::Profile& profile, Fd file) = 0;
  // Before it leaves the registry. `why` goes on with "while …".
  virtual void OnClientGone(const ProcessId& process, const std::string& why) = 0;
};

struct ClientServerOptions {
  ring::SegmentOptions segment;
  size_t most_clients = 2048;
  size_t most_clients_per_user = 512;
  Nanos hello_timeout = Nanos::Seconds(5);
  // Whose processes may register: everybody's for root's daemon, else this user's.
  uid_t owner = 0;
};

class ClientServer {
 public:
  // All references outlive this.
  ClientServer(ClientServerOptions options, ListeningSocket socket, EventLoop& loop,
               const ProcessTable& processes, const SchedulerJobs& jobs, Registry& registry,
               ClientVisits& visits, ClientEvents& events, Log& log);
  ~ClientServer();

  absl::Status Start();

  // False when the process is not connected or takes no messages (then it is disconnected).
  template <typename Message>
  bool Send(const ProcessId& process, const Message& message) {
    return SendBytes(process, &message, sizeof(message));
  }
  // Its capture ends as if it had left. A client that lives comes back.
  void Disconnect(const ProcessId& process, const std::string& why);
  // Null when it is not connected.
  std::shared_ptr<DaemonSegment> SegmentOf(const ProcessId& process) const;

  size_t connections() const { return connections_.size(); }
  // Refused since the daemon started, by the status code that stands for the reason.
  const std::map<absl::StatusCode, uint64_t>& refused() const { return refused_; }

 private:
  using ConnectionId = uint64_t;

  struct Connection {
    Fd socket;
    Fd pidfd;  // none where the kernel has none: then only the socket tells of its death
    Peer peer;
    EventLoop::WatchId socket_watch = 0;
    EventLoop::WatchId pidfd_watch = 0;
    EventLoop::TimerId hello_timer = 0;
    bool registered = false;
    bool spoke = false;  // a packet came
    std::string who;     // what a refused one is shown as
    ProcessId process;
    std::shared_ptr<DaemonSegment> segment;
  };

  void AcceptAll();
  void AcceptOne(Fd socket);
  absl::Status Admit(const Peer& peer) const;
  void OnReadable(ConnectionId id);
  // Non-OK: the connection is to be refused with that reason.
  absl::Status OnPacket(Connection& connection, const std::byte* bytes, size_t length, Fd descriptor);
  absl::Status OnHello(Connection& connection, const ring::Hello& hello, Fd descriptor);
  absl::Status Register(Connection& connection, const ring::Hello& hello);
  absl::StatusOr<ProcessInfo> FindProcess(const Connection& connection) const;
  void DrainOldSegment(const Connection& connection, Fd descriptor);
  void OnState(Connection& connection, const ring::State& state);
  void Refuse(ConnectionId id, const absl::Status& why);
  void NoteRefused(const Peer& peer, const std::string& who, const absl::Status& why);
  void Close(ConnectionId id, const std::string& why);
  bool SendBytes(const ProcessId& process, const void* bytes, size_t length);
  static void SendRefuse(int socket, const std::string& reason);

  const ClientServerOptions options_;
  const ListeningSocket socket_;
  EventLoop& loop_;
  const ProcessTable& processes_;
  const SchedulerJobs& jobs_;
  Registry& registry_;
  ClientVisits& visits_;
  ClientEvents& events_;
  Log& log_;
  EventLoop::WatchId accept_watch_ = 0;
  std::map<ConnectionId, Connection> connections_;
  std::map<ProcessId, ConnectionId> by_process_;
  std::map<uid_t, size_t> per_user_;
  std::map<absl::StatusCode, uint64_t> refused_;
  ConnectionId next_connection_ = 1;
  uint64_t next_incarnation_ = 1;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CLIENT_SERVER_H_
