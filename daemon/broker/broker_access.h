#ifndef LOCKSTEP_DAEMON_BROKER_BROKER_ACCESS_H_
#define LOCKSTEP_DAEMON_BROKER_BROKER_ACCESS_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "daemon/broker/messages.h"
#include "daemon/node/host_access.h"

namespace lockstep::daemon {

// The connection to a process with a user's rights (user_process.h). One thread at a time.
class UserSocket {
 public:
  explicit UserSocket(Fd fd) : fd_(std::move(fd)) {}
  // After an error EPIPE or ETIMEDOUT all further calls fail.
  BrokerReply Ask(const BrokerRequest& request);
  bool broken() const { return broken_; }

 private:
  const Fd fd_;
  bool broken_ = false;
};

// Asks the broker. Any thread. A call takes some ten microseconds; one that depends on a user's file system
// ends after 2 s. After the broker's death all calls fail.
class BrokerAccess final : public HostAccess {
 public:
  // `socket` is connected to a Broker.
  explicit BrokerAccess(Fd socket) : socket_(std::move(socket)) {}

  // Is readable when the broker is gone, and while a reply waits.
  int socket() const { return socket_.get(); }
  bool gone() const;

  // Returns a socket of BrokerSettings::sockets; not ok: the broker has no more.
  Fd TakeSocket(size_t index) const;

  Fd OpenProcFile(int32_t pid, std::string_view name) const override;
  std::vector<ProcessOwner> Processes() const override;
  bool CudaIsUp(int32_t pid) const override;
  std::optional<struct stat> StatAsSeenBy(int32_t pid, const std::string& path) const override;
  v1::ProcessStacks ReadStacks(int32_t pid, uint64_t start_ticks, StackKinds kinds) const override;
  bool MapsUser(int32_t pid, uid_t uid) const override;
  void SendToFile(int socket, const std::string& folder, const std::string& path, uid_t owner,
                  std::string_view bytes) const override;
  void RemoveDeadSockets(const std::string& folder, const std::string& prefix) const override;
  // Only sockets of `lockstep trace` (IsCallersSocket).
  absl::StatusOr<Fd> Connect(uid_t user, const std::string& path) const override;
  absl::StatusOr<Fd> ConnectToSetting(const std::string& path) const override;
  absl::StatusOr<std::unique_ptr<UserFolders>> FoldersOf(uid_t uid, gid_t gid) const override;
  InputFile OpenToRead(const std::string& path) const override;
  Fd OpenToAppend(const std::string& path) const override;

 private:
  // Returns an error EPIPE if the broker is gone.
  BrokerReply Ask(const BrokerRequest& request) const;

  // Makes a call that ends soon, with the rights of the user. A process is kept for the next calls.
  BrokerReply AskUser(uid_t uid, gid_t gid, const BrokerRequest& request) const;

  const Fd socket_;
  mutable Mutex mutex_;  // held from a request to its reply
  mutable Mutex users_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable std::map<std::pair<uid_t, gid_t>, std::unique_ptr<UserSocket>> users_ ABSL_GUARDED_BY(users_mutex_);
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_BROKER_BROKER_ACCESS_H_
