#include "daemon/broker/broker_service.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"

namespace lockstep::daemon {

void BrokerService::Run(int stop, Nanos period, const std::function<void()>& alive) {
  const int wait = static_cast<int>(std::clamp<int64_t>(period.ns() / 1'000'000, 1, INT32_MAX));
  Fd daemon;
  while (true) {
    alive();
    // A second daemon waits in the socket's queue until the first one has ended.
    pollfd polled[] = {{stop, POLLIN, 0}, {daemon.ok() ? daemon.get() : socket_.fd(), POLLIN, 0}};
    if (poll(polled, 2, wait) <= 0) continue;
    if (polled[0].revents != 0) return;
    if (polled[1].revents == 0) continue;
    if (!daemon.ok()) {
      daemon = Accept();
    } else if (!broker_.ServeOne(daemon.get())) {
      log_.Info("daemon_left");
      daemon.reset();
    }
  }
}

Fd BrokerService::Accept() const {
  Fd caller(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!caller.ok()) return caller;
  const absl::StatusOr<Peer> peer = PeerOf(caller.get());
  if (peer.ok() && peer->uid == user_) {
    log_.Info("daemon_came", {{"pid", peer->pid}});
    return caller;
  }
  log_.Warning("caller_refused",
               {{"uid", peer.ok() ? static_cast<int64_t>(peer->uid) : -1}, {"daemon", user_}});
  return Fd();
}

}  // namespace lockstep::daemon
