// Gives up a process's privileges.
#ifndef LOCKSTEP_DAEMON_BROKER_PRIVILEGES_H_
#define LOCKSTEP_DAEMON_BROKER_PRIVILEGES_H_

#include <sys/types.h>

#include <initializer_list>
#include <optional>
#include <vector>

#include "base/access/user_directory.h"
#include "daemon/node/host_access.h"

namespace lockstep::daemon {

struct UserAndGroup {
  uid_t uid = 0;
  gid_t gid = 0;
};

// Returns the user for the unprivileged part of root's daemon: `lockstepd` if the system has it, else a free
// number. No user and no process has that number, so nobody else can signal or trace the daemon. Nothing: all
// numbers are taken.
std::optional<UserAndGroup> ChooseUnprivilegedUser(const UserDirectory& users,
                                                   const std::vector<ProcessOwner>& processes);

// These change all threads that exist, so call them before others start. They return false if the kernel
// refuses. The process has no supplementary groups afterwards, cannot gain privileges, and leaves no core
// with the memory of a privileged one.
bool BecomeUser(uid_t uid, gid_t gid);
// Keeps only `kept` (CAP_… numbers) of the capabilities.
bool DropCapabilities(std::initializer_list<int> kept);
// Keeps only the broker's rights and gives the process a name of its own. It returns false as above.
bool BecomeBroker();
// Returns whether this process may change to another user.
bool MayChangeUser();

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_BROKER_PRIVILEGES_H_
