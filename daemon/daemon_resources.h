// Opens the sockets and files of a daemon with the rights of the user who starts it, before root's daemon
// gives up its privileges.
#ifndef LOCKSTEP_DAEMON_DAEMON_RESOURCES_H_
#define LOCKSTEP_DAEMON_DAEMON_RESOURCES_H_

#include <sys/types.h>

#include <memory>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/log/audit_log.h"
#include "base/log/log.h"
#include "base/rpc/security.h"
#include "daemon/captures/kineto_capture_path.h"
#include "daemon/kineto/kineto_sockets.h"
#include "daemon/node/host_access.h"
#include "daemon/node/socket.h"
#include "daemon/options.h"

namespace lockstep::daemon {

// The sockets in the file system, and the lock that gives them to one daemon.
struct DaemonSockets {
  uid_t owner = 0;  // the user who opened them; root's daemon serves all users
  Fd lock;
  KinetoSockets kineto;
  ListeningSocket control;
  ListeningSocket clients;
};

std::string SocketFolderOf(const Options& options);
std::string ControlSocketOf(const Options& options);

// kAlreadyExists: another daemon holds them.
absl::StatusOr<DaemonSockets> OpenDaemonSockets(const Options& options, AbstractName abstract_name);

struct DaemonResources {
  DaemonSockets sockets;
  std::shared_ptr<const HostAccess> access;
  rpc::SecuritySettings security;         // with the token
  std::unique_ptr<LineSink> audit_lines;  // null without an audit log
};

// Opens the rest. It sets --node-id to the node of the certificate, which binds the daemon to it.
absl::StatusOr<DaemonResources> OpenDaemonResources(Options& options, DaemonSockets sockets,
                                                    std::shared_ptr<const HostAccess> access, Log& log);

// The settings of on-demand traces for a daemon with these options.
KinetoPathOptions KinetoPathOptionsOf(const Options& options, uid_t owner);
// Returns the log's sink; the log outlives it.
LogSink SinkOf(Log& log);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DAEMON_RESOURCES_H_
