#ifndef LOCKSTEP_DAEMON_NODE_CONTROL_CALLER_H_
#define LOCKSTEP_DAEMON_NODE_CONTROL_CALLER_H_

#include <sys/types.h>

#include "base/access/roles.h"

namespace lockstep::daemon {

// A user at the control socket, as the kernel identifies them, and their rights.
struct ControlCaller {
  uid_t uid = 0;
  Rights rights;

  // The user whose processes are shown or captured for this caller; root stands for all users.
  uid_t sees() const { return rights.see_all || rights.capture_all ? 0 : uid; }
  uid_t captures() const { return rights.capture_all ? 0 : uid; }
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_CONTROL_CALLER_H_
