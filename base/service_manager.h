// Reports the state of this program to the service manager that started it. This is systemd's protocol for
// Type=notify: one datagram to the socket in $NOTIFY_SOCKET (sd_notify(3)). With a watchdog, the manager
// restarts a program that does not report in time (sd_watchdog_enabled(3)). We implement both here, so that
// no program needs libsystemd.
#ifndef LOCKSTEP_BASE_SERVICE_MANAGER_H_
#define LOCKSTEP_BASE_SERVICE_MANAGER_H_

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <system_error>

#include "base/fd.h"
#include "base/time.h"

namespace lockstep {

inline constexpr char kServiceManagerVariable[] = "NOTIFY_SOCKET";
inline constexpr char kServiceReady[] = "READY=1";
inline constexpr char kServiceStopping[] = "STOPPING=1";
inline constexpr char kServiceAlive[] = "WATCHDOG=1";

inline constexpr char kWatchdogTimeVariable[] = "WATCHDOG_USEC";
inline constexpr char kWatchdogPidVariable[] = "WATCHDOG_PID";

// Returns the time between two reports of kServiceAlive, which is half the time that the manager allows. Null
// if the manager watches nothing, or another process than `own`. The texts are the variables' values or null.
inline std::optional<Nanos> WatchdogPeriod(const char* microseconds, const char* pid, pid_t own) {
  const auto number = [](const char* text) -> std::optional<int64_t> {
    int64_t value = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, value);
    return error == std::errc() && stop == end && value > 0 ? std::optional(value) : std::nullopt;
  };
  // A child of the watched process inherits the variables.
  if (microseconds == nullptr || (pid != nullptr && number(pid) != own)) return std::nullopt;
  const std::optional<int64_t> allowed = number(microseconds);
  constexpr int64_t kLongest = Nanos::Seconds(24 * 3600).ns() / 1000;
  if (!allowed || *allowed > kLongest) return std::nullopt;
  return Nanos::Micros(*allowed) / 2;
}

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
