// The node's control service (gRPC Node) on connections that the daemon accepts itself, so that the kernel
// says who calls: each user gets a server object of their own, which can only ever act for that user.
#ifndef LOCKSTEP_DAEMON_CONTROL_SERVER_H_
#define LOCKSTEP_DAEMON_CONTROL_SERVER_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/log/log.h"
#include "daemon/node/event_loop.h"
#include "daemon/node/socket.h"
#include "lockstep/v1/control.pb.h"

namespace grpc {
class Server;
}

namespace lockstep::daemon {

// What the service asks of the daemon. Implemented by: Daemon, and tests. Called on the main thread.
class ControlHandler {
 public:
  virtual ~ControlHandler() = default;
  virtual v1::StatusReply Status(uid_t caller, const v1::StatusRequest& request) = 0;
  // `done` is called once, on any thread, with an empty text when the aggregator has registered the daemon.
  virtual void Dial(uid_t caller, const v1::DialRequest& request,
                    std::function<void(std::string error)> done) = 0;
  // kPermissionDenied where the caller is not the scheduler's user.
  virtual absl::StatusOr<v1::BeginJobReply> BeginJob(uid_t caller, const v1::BeginJobRequest& request) = 0;
  virtual absl::Status EndJob(uid_t caller, const v1::EndJobRequest& request) = 0;
  // Somebody's connection was closed before they could ask anything.
  virtual void ControlRefused(uid_t caller, pid_t pid, const char* reason) = 0;
};

struct ControlServerOptions {
  // Besides root and this user; root's daemon serves everybody, each for their own ranks.
  uid_t owner = 0;
  size_t most_users = 64;
  Nanos call_timeout = Nanos::Seconds(15);
};

// The main thread, but for what runs in gRPC's handlers.
class ControlServer {
 public:
  ControlServer(ControlServerOptions options, ListeningSocket socket, EventLoop& loop,
                ControlHandler& handler, Log& log);
  // Ends all connections; handlers that wait for the main thread give up.
  ~ControlServer();

  absl::Status Start();
  // Handlers that run now.
  int calls() const;

 private:
  struct PerUser;
  void AcceptAll();
  PerUser* ServerFor(uid_t uid, pid_t pid);

  const ControlServerOptions options_;
  const ListeningSocket socket_;
  EventLoop& loop_;
  ControlHandler& handler_;
  Log& log_;
  EventLoop::WatchId accept_watch_ = 0;
  std::map<uid_t, std::unique_ptr<PerUser>> servers_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CONTROL_SERVER_H_
