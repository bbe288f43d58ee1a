// Acceptor accepts connections at a listening socket.
//
// If the process or the machine has no free descriptor, connections stay in the kernel's queue, and the
// acceptor tries again after kShortagePause. Without the pause the event loop would spin, because the
// listening socket stays readable. The loop's thread.
#ifndef LOCKSTEP_DAEMON_NODE_ACCEPTOR_H_
#define LOCKSTEP_DAEMON_NODE_ACCEPTOR_H_

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "base/fd.h"
#include "base/log/log.h"
#include "base/time.h"
#include "daemon/loop/event_loop.h"

namespace lockstep::daemon {

class Acceptor {
 public:
  static constexpr Nanos kShortagePause = Nanos::Millis(100);

  // `loop` and `log` outlive this.
  Acceptor(EventLoop& loop, Log& log) : loop_(loop), log_(log) {}
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // `accepted` is called with each connection, which is non-blocking and close-on-exec. `listener` is a
  // non-blocking socket that stays open as long as this object.
  absl::Status Start(int listener, std::function<void(Fd)> accepted);

 private:
  static constexpr int kMostPerTurn = 64;
  static constexpr Nanos kLogPause = Nanos::Seconds(10);

  absl::Status Watch();
  void AcceptWaiting();
  void Pause(int error);

  EventLoop& loop_;
  Log& log_;
  int listener_ = -1;
  std::function<void(Fd)> accepted_;
  EventLoop::WatchId watch_ = 0;
  EventLoop::TimerId again_ = 0;
  EventLoop::TimerId log_again_ = 0;  // 0: the next shortage is logged
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_ACCEPTOR_H_
