#include "daemon/broker/split.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/access/user_directory.h"
#include "daemon/broker/privileges.h"
#include "daemon/node/own_access.h"

namespace lockstep::daemon {
namespace {

void RunBroker(BrokerSettings settings, int socket) {
  if (!BecomeBroker()) return;
  const OwnAccess access;
  Broker(std::move(settings), access).Serve(socket);
}

}  // namespace

absl::StatusOr<SplitDaemon> Split(BrokerSettings settings) {
  auto [daemon, broker] = BrokerSocketPair();
  if (!daemon.ok()) return absl::ErrnoToStatus(errno, "cannot create the socket of the broker");
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot start the broker");
  SplitDaemon split;
  split.broker = pid;
  if (pid == 0) {
    daemon.reset();
    RunBroker(std::move(settings), broker.get());
    return split;
  }
  split.access = std::make_shared<BrokerAccess>(std::move(daemon));
  return split;
}

absl::Status BecomeUnprivileged(const HostAccess& access) {
  const std::optional<UserAndGroup> user = ChooseUnprivilegedUser(SystemUsers(), access.Processes());
  if (!user)
    return absl::PermissionDeniedError("no user number is free for the daemon: create user lockstepd");
  if (!BecomeUser(user->uid, user->gid) || geteuid() == 0)
    return absl::PermissionDeniedError(absl::StrCat("the daemon cannot become user ", user->uid));
  // The kernel has hidden /proc/self from its own process, as after every such change. No other process has
  // this user.
  prctl(PR_SET_DUMPABLE, 1);
  return absl::OkStatus();
}

void WaitForBroker(pid_t broker) {
  while (waitpid(broker, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace lockstep::daemon
