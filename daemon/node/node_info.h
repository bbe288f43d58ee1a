// NodeInfo identifies this node and the daemon's user.
#ifndef LOCKSTEP_DAEMON_NODE_NODE_INFO_H_
#define LOCKSTEP_DAEMON_NODE_NODE_INFO_H_

#include <sys/types.h>

#include <string>

namespace lockstep::daemon {

struct NodeInfo {
  std::string id;         // distinguishes nodes; by default the kernel's boot id
  std::string host_name;  // shown for this node
  uid_t owner = 0;        // the user who runs the daemon
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_NODE_INFO_H_
