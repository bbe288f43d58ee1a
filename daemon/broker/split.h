// Splits root's daemon into two processes: a broker that keeps the privileges, and the daemon without them.
#ifndef LOCKSTEP_DAEMON_BROKER_SPLIT_H_
#define LOCKSTEP_DAEMON_BROKER_SPLIT_H_

#include <sys/types.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/broker_access.h"

namespace lockstep::daemon {

struct SplitDaemon {
  static constexpr pid_t kNotOurChild = -1;
  pid_t broker = kNotOurChild;           // 0: this process is the broker, and its work is done
  std::shared_ptr<BrokerAccess> access;  // of the daemon; null if it runs without a broker
};

// Forks the broker, which serves the daemon and returns when the daemon has ended. Call it before other
// threads start. An error means that the system has no process or descriptor.
absl::StatusOr<SplitDaemon> Split(BrokerSettings settings);

// Gives up the privileges of the daemon. kPermissionDenied: the kernel refuses.
absl::Status BecomeUnprivileged(const HostAccess& access);

// Waits for the end of the broker, which follows that of its last socket.
void WaitForBroker(pid_t broker);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_BROKER_SPLIT_H_
