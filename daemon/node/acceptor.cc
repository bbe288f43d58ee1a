#include "daemon/node/acceptor.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"

namespace lockstep::daemon {

Acceptor::~Acceptor() {
  loop_.Unwatch(watch_);
  loop_.Cancel(again_);
  loop_.Cancel(log_again_);
}

absl::Status Acceptor::Start(int listener, std::function<void(Fd)> accepted) {
  listener_ = listener;
  accepted_ = std::move(accepted);
  return Watch();
}

absl::Status Acceptor::Watch() {
  const absl::StatusOr<EventLoop::WatchId> watch = loop_.Watch(listener_, [this] { AcceptWaiting(); });
  if (watch.ok()) watch_ = *watch;
  return watch.status();
}

void Acceptor::AcceptWaiting() {
  for (int i = 0; i < kMostPerTurn; ++i) {
    Fd fd(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.ok()) {
      accepted_(std::move(fd));
      continue;
    }
    // The peer may have closed the connection before it was accepted.
    if (errno == ECONNABORTED || errno == EINTR) continue;
    if (errno != EAGAIN) Pause(errno);
    return;
  }
}

void Acceptor::Pause(int error) {
  loop_.Unwatch(watch_);
  again_ = loop_.After(kShortagePause, [this] {
    // Watching needs no descriptor, but may need memory.
    if (!Watch().ok()) Pause(ENOMEM);
  });
  if (log_again_ != 0) return;
  log_.Warning("accept_paused", {{"reason", std::strerror(error)},
                                 {"remedy", "raise the limit of open files (ulimit -n, LimitNOFILE=)"}});
  log_again_ = loop_.After(kLogPause, [this] { log_again_ = 0; });
}

}  // namespace lockstep::daemon
