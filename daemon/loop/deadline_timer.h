// DeadlineTimer calls a function when a deadline passes that changes again and again.
//
// It keeps at most one timer of the event loop. The loop's thread.
#ifndef LOCKSTEP_DAEMON_LOOP_DEADLINE_TIMER_H_
#define LOCKSTEP_DAEMON_LOOP_DEADLINE_TIMER_H_

#include <functional>
#include <optional>

#include "base/clock.h"
#include "base/time.h"
#include "daemon/loop/event_loop.h"

namespace lockstep::daemon {

class DeadlineTimer {
 public:
  // `passed` is called at the deadline, and may set the next one. The references outlive this.
  DeadlineTimer(EventLoop& loop, const Clock& clock, std::function<void()> passed);
  ~DeadlineTimer();
  DeadlineTimer(const DeadlineTimer&) = delete;
  DeadlineTimer& operator=(const DeadlineTimer&) = delete;

  // Replaces the deadline. Nothing: there is none.
  void Set(std::optional<MonoTime> deadline);

 private:
  EventLoop& loop_;
  const Clock& clock_;
  const std::function<void()> passed_;
  std::optional<EventLoop::TimerId> timer_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_LOOP_DEADLINE_TIMER_H_
