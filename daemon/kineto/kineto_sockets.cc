#include "daemon/kineto/kineto_sockets.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/kineto_folder.h"
#include "daemon/node/socket.h"

namespace lockstep::daemon {
namespace {

// The name includes its terminating zero, because clients bind and send that way.
socklen_t AbstractAddress(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size() + 1);
}

std::string PathOf(const std::string& folder) { return absl::StrCat(folder, "/", kKinetoSocketName); }

void Bind(const std::string& folder, KinetoSockets& opened) {
  const std::string shown =
      folder.empty() ? absl::StrCat("the abstract name ", kKinetoSocketName) : PathOf(folder);
  sockaddr_un address{};
  const socklen_t length =
      folder.empty() ? AbstractAddress(kKinetoSocketName, &address) : PathAddress(PathOf(folder), &address);
  Fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (length == 0 || !fd.ok()) {
    opened.errors.push_back(absl::StrCat(shown, " cannot be bound: its path is too long"));
    return;
  }
  // A running dynolog keeps its name. A file without a receiver is replaced.
  if (!folder.empty() && !HasReceiver(address, length)) unlink(PathOf(folder).c_str());
  // Set before the first datagram can arrive: one without credentials has no sender.
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
  // Unlike our other sockets, this one is not bound under another name first. Clients compare the path from
  // which an answer comes.
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    opened.errors.push_back(
        errno == EADDRINUSE
            ? absl::StrCat(shown, " belongs to another daemon (dynolog, or another user's lockstepd)")
            : absl::StrCat(shown, " cannot be bound: ", std::strerror(errno)));
    return;
  }
  // Credentials decide access, so any process that can enter the folder may send.
  if (!folder.empty()) chmod(PathOf(folder).c_str(), 0666);
  opened.sockets.emplace_back(std::move(fd), folder);
}

}  // namespace

KinetoSocket::KinetoSocket(Fd fd, std::string folder) : fd_(std::move(fd)), folder_(std::move(folder)) {
  struct stat info {};
  if (!folder_.empty() && lstat(PathOf(folder_).c_str(), &info) == 0) {
    device_ = info.st_dev;
    inode_ = info.st_ino;
  }
}

KinetoSocket::~KinetoSocket() {
  const std::string path = PathOf(folder_);
  struct stat info {};
  if (fd_.ok() && !folder_.empty() && lstat(path.c_str(), &info) == 0 && info.st_dev == device_ &&
      info.st_ino == inode_) {
    unlink(path.c_str());
  }
}

KinetoSockets OpenKinetoSockets(AbstractName abstract_name, const std::vector<std::string>& folders) {
  KinetoSockets opened;
  if (abstract_name == AbstractName::kYes) Bind("", opened);
  for (const std::string& folder : folders) Bind(folder, opened);
  return opened;
}

}  // namespace lockstep::daemon
