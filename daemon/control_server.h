// ControlServer serves the node's control service (gRPC Node). The daemon accepts the connections itself,
// because then the kernel identifies the caller. Each user gets a separate gRPC server, which can act only
// for that user.
#ifndef LOCKSTEP_DAEMON_CONTROL_SERVER_H_
#define LOCKSTEP_DAEMON_CONTROL_SERVER_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/access/roles.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/rpc/peer_table.h"
#include "base/time.h"
#include "daemon/loop/event_loop.h"
#include "daemon/node/acceptor.h"
#include "daemon/node/control_caller.h"
#include "daemon/node/socket.h"
#include "lockstep/v1/control.pb.h"

namespace grpc {
class Server;
}

namespace lockstep::daemon {

// Carries out the service's calls about the node. Implemented by: NodeControl. Called on the main thread.
class ControlHandler {
 public:
  virtual ~ControlHandler() = default;
  virtual v1::StatusReply Status(const ControlCaller& caller, const v1::StatusRequest& request) = 0;
  // `done` is called once, on the main thread. The daemon may end before.
  virtual void Progress(const ControlCaller& caller, const v1::ProgressRequest& request,
                        std::function<void(v1::ProgressReply)> done) = 0;
  // `done` is called once, on any thread. `error` is empty if the aggregator has registered the daemon.
  virtual void Dial(const ControlCaller& caller, const v1::DialRequest& request,
                    std::function<void(std::string error)> done) = 0;
  // A connection was closed before its first request.
  virtual void ControlRefused(uid_t caller, pid_t pid, const char* reason) = 0;
};

// Carries out the service's calls of schedulers. Implemented by: SchedulerControl. Called on the main thread.
class SchedulerHandler {
 public:
  virtual ~SchedulerHandler() = default;
  // kPermissionDenied: the caller is not the scheduler's user.
  virtual absl::StatusOr<v1::BeginJobReply> BeginJob(uid_t caller, const v1::BeginJobRequest& request) = 0;
  virtual absl::Status EndJob(uid_t caller, const v1::EndJobRequest& request) = 0;
};

struct ControlServerOptions {
  // The daemon serves root and this user. Root's daemon serves all users, each for their own ranks.
  uid_t owner = 0;
  size_t most_users = 64;
  Nanos call_timeout = Nanos::Seconds(15);
};

// The main thread, except for gRPC's handlers.
class ControlServer {
 public:
  // All references outlive this. `roles` is called on gRPC's threads, because it may wait for a server of the
  // site.
  ControlServer(ControlServerOptions options, const Roles& roles, EventLoop& loop, const Clock& clock,
                ControlHandler& handler, SchedulerHandler& scheduler, Log& log);
  // Ends all connections. Handlers that wait for the main thread return an error.
  ~ControlServer();

  // Accepts connections at `socket`.
  absl::Status Start(ListeningSocket socket);
  // Returns the time at which a call was last running, in the clock's past or now.
  MonoTime last_call() const;

 private:
  class NodeService;
  struct PerUser;
  // Written by gRPC's threads.
  struct Calls {
    std::atomic<int> running = 0;
    std::atomic<int64_t> last_end_ns = 0;  // monotonic
  };
  void Accept(Fd socket);
  PerUser* ServerFor(uid_t uid, pid_t pid);

  const ControlServerOptions options_;
  const Roles& roles_;
  std::optional<ListeningSocket> socket_;
  EventLoop& loop_;
  const Clock& clock_;
  ControlHandler& handler_;
  SchedulerHandler& scheduler_;
  Log& log_;
  Calls calls_;
  std::map<uid_t, std::unique_ptr<PerUser>> servers_;
  // The newest connections of each user. An older one is closed in favour of a new one.
  rpc::PeerTable connections_{{.strangers = 2048, .strangers_per_source = 32}};
  uint64_t next_connection_ = 1;
  Acceptor acceptor_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CONTROL_SERVER_H_
