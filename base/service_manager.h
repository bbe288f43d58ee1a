// Reports the state of this program to the service manager that started it. This is systemd's protocol for
// Type=notify: one datagram to the socket in $NOTIFY_SOCKET (sd_notify(3)). We implement it here, so that no
// program needs libsystemd.
#ifndef LOCKSTEP_BASE_SERVICE_MANAGER_H_
#define LOCKSTEP_BASE_SERVICE_MANAGER_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>

#include "base/fd.h"

namespace lockstep {

inline constexpr char kServiceManagerVariable[] = "NOTIFY_SOCKET";
inline constexpr char kServiceReady[] = "READY=1";
inline constexpr char kServiceStopping[] = "STOPPING=1";

// `socket_path` is the variable's value: an absolute path, or @ and an abstract name. With null it does
// nothing. It ignores failures and never waits, so that a manager that does not read cannot block the
// program.
inline void NotifyServiceManager(const char* socket_path, const char* state) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const size_t length = socket_path == nullptr ? 0 : std::strlen(socket_path);
  if (length < 2 || length >= sizeof address.sun_path || (socket_path[0] != '/' && socket_path[0] != '@'))
    return;
  std::memcpy(address.sun_path, socket_path, length);
  if (socket_path[0] == '@') address.sun_path[0] = '\0';
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.ok()) return;
  ::sendto(socket.get(), state, std::strlen(state), MSG_DONTWAIT | MSG_NOSIGNAL,
           reinterpret_cast<const sockaddr*>(&address),
           static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_SERVICE_MANAGER_H_
