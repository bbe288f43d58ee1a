// ConnectionGate accepts the connections of a gRPC server on a thread of its own, and limits those of
// strangers (PeerTable).
//
// Connections over a Unix socket are trusted from the start, because only the server's user can enter the
// socket's folder.
#ifndef LOCKSTEP_BASE_RPC_CONNECTION_GATE_H_
#define LOCKSTEP_BASE_RPC_CONNECTION_GATE_H_

#include <grpcpp/server_builder.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/rpc/address.h"
#include "base/rpc/listener.h"
#include "base/rpc/peer_table.h"
#include "base/rpc/security.h"

namespace lockstep::rpc {

// Returns "10.0.0.7:41234" or "[::1]:41234" for the peer of a call in gRPC's notation (ServerContext::peer),
// and an empty text for a Unix socket.
std::string PeerText(const std::string& peer);

// The peers of a server. `peer` is in gRPC's notation. Implemented by: ConnectionGate, and tests. Any thread
// may call it.
class Peers {
 public:
  virtual ~Peers() = default;
  // The peer has proved who it is. The rest is as in PeerTable::Trust.
  virtual absl::Status Trust(const std::string& peer, std::optional<uid_t> user) = 0;
  // A call of the peer was refused because it has not proved who it is.
  virtual void NoteRefused(const std::string& peer) = 0;
  // Returns the address or the local user to which the peer's connection is charged; empty over a Unix
  // socket.
  virtual std::string SourceOf(const std::string& peer) const = 0;
};

struct GateCounts {
  size_t strangers = 0;    // connections now
  size_t trusted = 0;      // connections over TCP now
  uint64_t accepted = 0;   // since the start
  uint64_t displaced = 0;  // closed in favour of newer ones
  uint64_t unproven = 0;   // closed after many refused calls
  uint64_t refused = 0;    // closed at once, because many of their source were closed just before
  uint64_t shortages = 0;  // times that no descriptor was free
};

// One thread calls Attach, Listen, Start and Stop in this order, each once except Listen. Any thread may call
// the other functions.
class ConnectionGate final : public Peers {
 public:
  // Strangers get at most a quarter of the descriptors that the process may open now.
  ConnectionGate();
  ~ConnectionGate() override { Stop(); }
  ConnectionGate(const ConnectionGate&) = delete;
  ConnectionGate& operator=(const ConnectionGate&) = delete;

  // The server of `builder` will serve the gate's connections. `tcp` protects those over TCP; null: Unix
  // sockets only.
  void Attach(grpc::ServerBuilder& builder, const Security* tcp);
  // Opens sockets by the rules of Listener::Open. Returns their port, or 0 for a Unix socket.
  // kFailedPrecondition: TCP without protection.
  absl::StatusOr<int> Listen(const Address& address);
  // Begins to accept. The server has started, and exists until Stop.
  absl::Status Start();
  // Accepts no further connection and closes the listening sockets. A second call does nothing.
  void Stop();

  absl::Status Trust(const std::string& peer, std::optional<uid_t> user) override;
  void NoteRefused(const std::string& peer) override;
  std::string SourceOf(const std::string& peer) const override;
  GateCounts counts() const;

 private:
  void Run();
  // Returns false if no descriptor was free.
  bool AcceptWaiting(const Listener& listener);
  // Returns false if the connection must be closed.
  bool AddStranger(int socket);

  // thread: owner, and between Start and Stop the gate's own
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> unix_acceptor_;
  // thread: as before
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> tcp_acceptor_;  // null: no TCP
  std::vector<Listener> listeners_;
  const Fd wakeup_;
  std::thread thread_;

  mutable Mutex mutex_;
  PeerTable peers_ ABSL_GUARDED_BY(mutex_);
  uint64_t accepted_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t shortages_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_CONNECTION_GATE_H_
