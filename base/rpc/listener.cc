#include "base/rpc/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rpc/channel.h"
#include "base/rpc/socket_address.h"
#include "base/rpc/status_macros.h"

namespace lockstep::rpc {
namespace {

constexpr int kBacklog = 1024;

absl::Status CheckFolder(const std::string& socket_path) {
  const size_t slash = socket_path.rfind('/');
  const std::string folder = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : socket_path.substr(0, slash);
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot use folder ", folder));
  if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("folder ", folder, " of socket ", socket_path,
                     " must belong to you and be accessible to you only: chmod 700 ", folder));
  }
  return absl::OkStatus();
}

absl::Status RemoveDeadSocket(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists and is not a socket: choose another path"));
  }
  if (ConnectUnix(path).ok()) {
    return absl::AlreadyExistsError(
        absl::StrCat("another process listens on ", path, ": choose another path"));
  }
  if (unlink(path.c_str()) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot remove dead socket ", path));
  return absl::OkStatus();
}

absl::Status CannotListen(const Address& address, const std::string& why) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address.target(), " (", why,
                   "): another program may use the port, or the address may not be this machine's"));
}

// Returns the addresses of the host, in the resolver's order.
absl::StatusOr<std::unique_ptr<addrinfo, void (*)(addrinfo*)>> Resolve(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host().c_str(), std::to_string(address.port()).c_str(), &hints, &found);
  if (error != 0) return CannotListen(address, gai_strerror(error));
  return std::unique_ptr<addrinfo, void (*)(addrinfo*)>(found, &freeaddrinfo);
}

// Opens a listening socket at the address. A socket of [::] also accepts IPv4 connections. If the descriptor
// is invalid, errno has the reason.
Fd ListenAt(const sockaddr_storage& address, socklen_t length) {
  Fd fd(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  const int off = 0;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.ss_family == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(fd.get(), kBacklog) != 0)
    return Fd();
  return fd;
}

}  // namespace

absl::StatusOr<std::vector<Listener>> Listener::Open(const Address& address) {
  if (!address.is_unix()) return OpenTcp(address);
  LOCKSTEP_ASSIGN_OR_RETURN(Listener listener, OpenUnix(address.path()));
  std::vector<Listener> one;
  one.push_back(std::move(listener));
  return one;
}

absl::StatusOr<Listener> Listener::OpenUnix(const std::string& path) {
  LOCKSTEP_RETURN_IF_ERROR(CheckFolder(path));
  LOCKSTEP_RETURN_IF_ERROR(RemoveDeadSocket(path));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return absl::InvalidArgumentError(absl::StrCat("the path of socket ", path, " is too long"));
  std::memcpy(address.sun_path, path.data(), path.size());
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  struct stat info {};
  if (!fd.ok() || bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd.get(), kBacklog) != 0 || lstat(path.c_str(), &info) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot listen on ", path));
  return Listener(std::move(fd), path, info.st_ino, 0);
}

absl::StatusOr<std::vector<Listener>> Listener::OpenTcp(const Address& address) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto found, Resolve(address));
  std::vector<Listener> listeners;
  int port = address.port();
  int error = 0;
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    sockaddr_storage own{};
    std::memcpy(&own, at->ai_addr, at->ai_addrlen);
    SetPort(own, port);
    Fd fd = ListenAt(own, at->ai_addrlen);
    if (!fd.ok()) {
      error = errno;
      continue;
    }
    socklen_t length = sizeof(own);
    getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length);
    port = PortOf(own);
    listeners.push_back(Listener(std::move(fd), "", 0, port));
  }
  // A name may have addresses of a protocol that the machine does not support.
  if (listeners.empty()) return CannotListen(address, std::strerror(error));
  return listeners;
}

Listener::~Listener() {
  if (!fd_.ok() || path_.empty()) return;
  struct stat info {};
  if (lstat(path_.c_str(), &info) == 0 && info.st_ino == inode_) unlink(path_.c_str());
}

}  // namespace lockstep::rpc
