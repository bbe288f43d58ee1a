// The daemon's path sockets: made so that only one daemon has each, in folders that nobody else can write.
#ifndef LOCKSTEP_DAEMON_SOCKET_H_
#define LOCKSTEP_DAEMON_SOCKET_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace lockstep::daemon {

// What the kernel says of the other end, as of its connect().
struct Peer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;  // 0: in a pid namespace that this one does not see
};
absl::StatusOr<Peer> PeerOf(int socket);

// A folder for sockets: made (0700, for root 0755) where it is missing; refused when others own it or may
// write in it.
absl::Status PrepareSocketFolder(const std::string& folder);

// Held as long as the daemon runs; kAlreadyExists when another one holds it.
absl::StatusOr<Fd> LockFile(const std::string& path);

// A listening socket at `path`. The caller holds the lock, so whatever is there is dead and is replaced, in
// one step. Unlinks the path at the end if it is still this socket.
class ListeningSocket {
 public:
  // `type` is SOCK_STREAM or SOCK_SEQPACKET; `mode` the file's.
  static absl::StatusOr<ListeningSocket> Open(const std::string& path, int type, mode_t mode);
  ListeningSocket(ListeningSocket&&) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  // The next connection, non-blocking and close-on-exec; nothing when there is none.
  std::optional<Fd> Accept() const;

 private:
  ListeningSocket(std::string path, Fd fd, dev_t device, ino_t inode)
      : path_(std::move(path)), fd_(std::move(fd)), device_(device), inode_(inode) {}
  std::string path_;
  Fd fd_;
  dev_t device_;
  ino_t inode_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_SOCKET_H_
