// Connects lockstepd's settings with its broker: as a child of root's daemon, or as a service of its own.
#ifndef LOCKSTEP_DAEMON_BROKER_PROGRAM_H_
#define LOCKSTEP_DAEMON_BROKER_PROGRAM_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/log/log.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/broker_access.h"
#include "daemon/daemon_resources.h"
#include "daemon/options.h"

namespace lockstep::daemon {

// Returns what these settings name.
BrokerSettings BrokerSettingsOf(const Options& options, const DaemonSockets& sockets);

// Runs a broker for the user of --broker-for, until SIGTERM or SIGINT, which must be blocked. An error states
// the remedy.
absl::Status RunBrokerService(const Options& options, Log& log);

// Connects to the service of the same settings. kUnavailable: it does not run. kPermissionDenied: it is not
// root's.
absl::StatusOr<std::shared_ptr<BrokerAccess>> ConnectToBroker(const Options& options);

// Receives the sockets that the service has opened, and opens those that need no rights.
absl::StatusOr<DaemonSockets> ReceiveDaemonSockets(const Options& options, const BrokerAccess& broker);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_BROKER_PROGRAM_H_
