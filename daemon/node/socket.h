// The daemon's sockets in the file system. A lock gives each path to one daemon, and other users cannot write
// to their folders.
#ifndef LOCKSTEP_DAEMON_NODE_SOCKET_H_
#define LOCKSTEP_DAEMON_NODE_SOCKET_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace lockstep::daemon {

// The process at the other end as the kernel recorded it at connect().
struct Peer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;  // 0: in a pid namespace that is not visible from the daemon's
};
absl::StatusOr<Peer> PeerOf(int socket);

// Creates a folder for sockets if it is missing (mode 0700, for root 0755). Fails if another user owns it or
// may write to it.
absl::Status PrepareSocketFolder(const std::string& folder);

// The lock is held as long as the descriptor is open. kAlreadyExists: another process holds it.
absl::StatusOr<Fd> LockFile(const std::string& path);

// A listening socket at `path`. The caller holds the lock, so an existing file is from a dead daemon. Open
// replaces it atomically. The destructor unlinks the path if it is still this socket.
class ListeningSocket {
 public:
  // `type` is SOCK_STREAM or SOCK_SEQPACKET; `mode` is the socket file's mode.
  static absl::StatusOr<ListeningSocket> Open(const std::string& path, int type, mode_t mode);
  ListeningSocket(ListeningSocket&&) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

 private:
  ListeningSocket(std::string path, Fd fd, dev_t device, ino_t inode)
      : path_(std::move(path)), fd_(std::move(fd)), device_(device), inode_(inode) {}
  std::string path_;
  Fd fd_;
  dev_t device_;
  ino_t inode_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_SOCKET_H_
