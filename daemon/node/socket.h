// The daemon's sockets in the file system. A lock gives each path to one daemon, and other users cannot write
// to their folders.
#ifndef LOCKSTEP_DAEMON_NODE_SOCKET_H_
#define LOCKSTEP_DAEMON_NODE_SOCKET_H_

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <optional>
#include <string>
#include <utility>

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

// Sets the address of a socket file and returns its length, with the terminating zero; 0: the path is empty
// or too long.
socklen_t PathAddress(const std::string& path, sockaddr_un* address);
// Returns true if a process receives datagrams at this address, false if only the file of a dead one is left.
bool HasReceiver(const sockaddr_un& address, socklen_t length);

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
  // Takes a socket at `path` that another process has opened. Its file stays if this process may not remove
  // it.
  static absl::StatusOr<ListeningSocket> Received(const std::string& path, Fd fd);
  ListeningSocket(ListeningSocket&&) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  // Returns device and inode of the socket's file.
  std::pair<dev_t, ino_t> file() const { return {device_, inode_}; }

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
