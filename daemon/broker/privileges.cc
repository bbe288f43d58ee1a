#include "daemon/broker/privileges.h"

#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace lockstep::daemon {
namespace {

constexpr char kUserName[] = "lockstepd";
constexpr char kBrokerName[] = "lockstep-broker";
// systemd's range for users that exist only while a service runs (DynamicUser=). The last numbers are taken
// first, because systemd begins anywhere.
constexpr uid_t kFirstFree = 61184;
constexpr uid_t kLastFree = 65519;

using Capabilities = __user_cap_data_struct[_LINUX_CAPABILITY_U32S_3];

bool Get(Capabilities& found) {
  __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  return syscall(SYS_capget, &head, found) == 0;
}

bool IsEffective(const Capabilities& found, int capability) {
  return (found[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability)) != 0;
}

}  // namespace

std::optional<UserAndGroup> ChooseUnprivilegedUser(const UserDirectory& users,
                                                   const std::vector<ProcessOwner>& processes) {
  if (const std::optional<uid_t> own = users.UserOf(kUserName); own && *own != 0)
    return UserAndGroup{*own, users.GroupOf(*own).value_or(*own)};
  for (uid_t uid = kLastFree; uid >= kFirstFree; --uid) {
    const bool used = std::any_of(processes.begin(), processes.end(),
                                  [&](const ProcessOwner& process) { return process.uid == uid; });
    if (!used && users.NameOf(uid).empty()) return UserAndGroup{uid, uid};
  }
  return std::nullopt;
}

bool BecomeUser(uid_t uid, gid_t gid) {
  return setgroups(0, nullptr) == 0 && setresgid(gid, gid, gid) == 0 && setresuid(uid, uid, uid) == 0 &&
         prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

bool DropCapabilities(std::initializer_list<int> kept) {
  Capabilities current = {}, wanted = {};
  if (!Get(current)) return false;
  for (const int capability : kept) {
    if (IsEffective(current, capability))
      wanted[CAP_TO_INDEX(capability)].permitted |= CAP_TO_MASK(capability);
  }
  for (auto& word : wanted) word.effective = word.permitted;
  __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  return syscall(SYS_capset, &head, wanted) == 0;
}

bool BecomeBroker() {
  prctl(PR_SET_NAME, kBrokerName);
  // CAP_DAC_OVERRIDE: clients' sockets are writable for their user only. CAP_SYS_PTRACE: the environment, the
  // libraries and the open files of other users' processes. CAP_SETUID and CAP_SETGID: processes with a
  // user's rights.
  return DropCapabilities({CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SETUID, CAP_SETGID}) &&
         prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

bool MayChangeUser() {
  Capabilities found = {};
  return geteuid() == 0 && Get(found) && IsEffective(found, CAP_SETUID) && IsEffective(found, CAP_SETGID);
}

}  // namespace lockstep::daemon
