#include "daemon/broker/user_process.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <map>
#include <memory>
#include <utility>

#include "base/rpc/channel.h"
#include "daemon/broker/child.h"
#include "daemon/broker/messages.h"
#include "daemon/broker/privileges.h"
#include "daemon/node/own_access.h"

namespace lockstep::daemon {
namespace {

constexpr unsigned kQuickSeconds = 2;
constexpr unsigned kFileSeconds = 60;
constexpr size_t kMostFolders = 4096;

int ErrnoOf(const absl::Status& status) {
  // absl maps errno values to codes; the daemon needs no more than the kind.
  if (absl::IsNotFound(status)) return ENOENT;
  return absl::IsPermissionDenied(status) ? EACCES : EIO;
}

class UserProcess {
 public:
  BrokerReply Answer(const BrokerRequest& request) {
    switch (request.call) {
      case BrokerCall::kStatAsSeenBy:
        return StatAsSeenBy(request);
      case BrokerCall::kConnect:
        return Connect(request);
      case BrokerCall::kOpenFolder:
        return OpenFolder(request);
      case BrokerCall::kCloseFolder:
        folders_.erase(request.number);
        return {};
      case BrokerCall::kStat:
      case BrokerCall::kOpen:
      case BrokerCall::kRemove:
        return InFolder(request);
      default:
        return {.error = EINVAL};
    }
  }

 private:
  BrokerReply StatAsSeenBy(const BrokerRequest& request) const {
    BrokerReply reply;
    reply.info = access_.StatAsSeenBy(request.pid, request.text);
    reply.error = reply.info ? 0 : ENOENT;
    return reply;
  }

  BrokerReply Connect(const BrokerRequest& request) const {
    if (!IsCallersSocket(request.text)) return {.error = EACCES};
    errno = 0;
    absl::StatusOr<Fd> socket = rpc::ConnectUnix(request.text);
    if (!socket.ok()) return {.error = errno != 0 ? errno : ErrnoOf(socket.status())};
    BrokerReply reply;
    reply.fd = *std::move(socket);
    return reply;
  }

  BrokerReply OpenFolder(const BrokerRequest& request) {
    if (folders_.size() >= kMostFolders) return {.error = EMFILE};
    folders_[++last_folder_] = opened_->Open(request.pid, request.number, request.text);
    BrokerReply reply;
    reply.number = last_folder_;
    return reply;
  }

  BrokerReply InFolder(const BrokerRequest& request) {
    const auto folder = folders_.find(request.number);
    if (folder == folders_.end() || !IsTraceFileName(request.text)) return {.error = EACCES};
    BrokerReply reply;
    if (request.call == BrokerCall::kRemove) {
      folder->second->Remove(request.text);
    } else if (request.call == BrokerCall::kStat) {
      reply.info = folder->second->Stat(request.text);
      reply.error = reply.info ? 0 : ENOENT;
    } else {
      absl::StatusOr<Fd> fd = folder->second->Open(request.text);
      reply.error = fd.ok() ? 0 : ErrnoOf(fd.status());
      if (fd.ok()) reply.fd = *std::move(fd);
    }
    return reply;
  }

  const OwnAccess access_;
  // This process is the user, so it opens their folders with its own rights.
  const std::unique_ptr<UserFolders> opened_ = *access_.FoldersOf(geteuid(), getegid());
  std::map<uint64_t, std::unique_ptr<UserFolder>> folders_;
  uint64_t last_folder_ = 0;
};

}  // namespace

bool IsTraceFileName(std::string_view name) {
  return name.find('/') == std::string_view::npos &&
         (name.starts_with("lockstep_") || name.starts_with("libkineto_activities_")) &&
         (name.ends_with(".json") || name.ends_with(".json.tmp"));
}

bool IsCallersSocket(std::string_view path) {
  return path.starts_with('/') && path.ends_with("/aggregator.sock");
}

void RunUserProcess(int socket, uid_t uid, gid_t gid) {
  BeginChild(socket);
  if (!BecomeUser(uid, gid)) _exit(1);
  // Root's own processes have capabilities, and the kernel shows /proc/<pid>/root only to a process with the
  // same ones, or with this one. It gives no right to files.
  if (!(uid == 0 ? DropCapabilities({CAP_SYS_PTRACE}) : DropCapabilities({}))) _exit(1);
  // The kernel forgets this setting at a change of the user. If the broker has ended already, so has the
  // socket.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  UserProcess process;
  while (const std::optional<BrokerRequest> request = ReceiveRequest(socket)) {
    const bool quick = request->call == BrokerCall::kStatAsSeenBy || request->call == BrokerCall::kConnect;
    alarm(quick ? kQuickSeconds : kFileSeconds);
    const BrokerReply reply = process.Answer(*request);
    alarm(0);
    if (!SendReply(socket, reply)) break;
  }
  _exit(0);
}

}  // namespace lockstep::daemon
