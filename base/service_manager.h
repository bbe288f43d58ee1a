// Tells the service manager that started this program how far it is: systemd's protocol for Type=notify,
// which is one datagram to the socket that $NOTIFY_SOCKET names (sd_notify(3)). Written here so that no
// program needs libsystemd for it.
#ifndef LOCKSTEP_COMMON_BASE_SERVICE_MANAGER_H_
#define LOCKSTEP_COMMON_BASE_SERVICE_MANAGER_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>

#include "base/fd.h"

namespace lockstep {

inline constexpr char kServiceManagerVariable[] = "NOTIFY_SOCKET";
inline constexpr char kServiceReady[] = "READY=1";
inline constexpr char kServiceStopping[] = "STOPPING=1";

// `socket_path` is the variable's value: an absolute path, or @ and an abstract name; null: nobody is to be
// told. Best effort and never waits: a manager that does not listen must not hold the program up.
inline void TellServiceManager(const char* socket_path, const char* state) {
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

#endif  // LOCKSTEP_COMMON_BASE_SERVICE_MANAGER_H_
