#include "daemon/node/socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/socket_path.h"

namespace lockstep::daemon {
namespace {

constexpr int kBacklog = 512;

}  // namespace

absl::StatusOr<Peer> PeerOf(int socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0 ||
      length != sizeof(credentials)) {
    return absl::ErrnoToStatus(errno, "the kernel does not report the peer's user");
  }
  return Peer{credentials.uid, credentials.gid, credentials.pid};
}

socklen_t PathAddress(const std::string& path, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address->sun_path)) return 0;
  std::memcpy(address->sun_path, path.data(), path.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
}

bool HasReceiver(const sockaddr_un& address, socklen_t length) {
  const Fd probe(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0 ||
         (errno != ECONNREFUSED && errno != ENOENT);
}

absl::Status PrepareSocketFolder(const std::string& folder) {
  const mode_t mode = geteuid() == 0 ? 0755 : 0700;
  // The umask may clear bits of mkdir's mode that other users need to reach root's daemon.
  const bool made = mkdir(folder.c_str(), mode) == 0;
  if (made ? chmod(folder.c_str(), mode) != 0 : errno != EEXIST) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot create folder ", folder, " for the daemon's sockets"));
  }
  const FolderVerdict verdict = CheckSocketFolder((folder + "/x").c_str(), geteuid());
  if (verdict == FolderVerdict::kUsable) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("cannot put a socket into ", folder, ": ", Explain(verdict)));
}

absl::StatusOr<Fd> LockFile(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open lock file ", path));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return absl::AlreadyExistsError(absl::StrCat("another daemon holds ", path));
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", path));
  }
  return fd;
}

absl::StatusOr<ListeningSocket> ListeningSocket::Open(const std::string& path, int type, mode_t mode) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // The socket is bound under another name and then renamed. A client therefore finds either a socket that
  // accepts or no file.
  const std::string beside = path + ".new";
  if (path.empty() || path[0] != '/' || beside.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("socket path ", path, ": must be absolute and at most ",
                                                   sizeof(address.sun_path) - 5, " characters"));
  }
  std::memcpy(address.sun_path, beside.data(), beside.size());
  Fd fd(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, "cannot create a socket");
  unlink(beside.c_str());
  struct stat info {};
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(beside.c_str(), mode) != 0 || listen(fd.get(), kBacklog) != 0 ||
      lstat(beside.c_str(), &info) != 0 || rename(beside.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(beside.c_str());
    return absl::ErrnoToStatus(error, absl::StrCat("cannot listen on ", path));
  }
  return ListeningSocket(path, std::move(fd), info.st_dev, info.st_ino);
}

absl::StatusOr<ListeningSocket> ListeningSocket::Received(const std::string& path, Fd fd) {
  struct stat info {};
  if (!fd.ok() || lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode))
    return absl::NotFoundError(absl::StrCat("no socket is open at ", path));
  return ListeningSocket(path, std::move(fd), info.st_dev, info.st_ino);
}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::move(other.fd_)),
      device_(other.device_),
      inode_(other.inode_) {}

ListeningSocket::~ListeningSocket() {
  if (!fd_.ok()) return;
  struct stat info {};
  if (lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_)
    unlink(path_.c_str());
}

}  // namespace lockstep::daemon
