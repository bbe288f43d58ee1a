// EventLoop runs the daemon's main thread: it serves descriptors, timers and calls from other threads, one at
// a time.
#ifndef LOCKSTEP_DAEMON_LOOP_EVENT_LOOP_H_
#define LOCKSTEP_DAEMON_LOOP_EVENT_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/time.h"

namespace lockstep::daemon {

// Post and Stop may be called from any thread. All other functions may be called only on the loop's thread,
// or before Run. A callback may watch, unwatch and schedule, and it may unwatch itself.
class EventLoop {
 public:
  using Callback = std::function<void()>;
  using WatchId = uint64_t;
  using TimerId = uint64_t;

  static absl::StatusOr<std::unique_ptr<EventLoop>> Create(const Clock& clock);

  // Calls `readable` whenever `fd` has data to read or the peer has closed it. The caller unwatches `fd`
  // before it closes it.
  absl::StatusOr<WatchId> Watch(int fd, Callback readable);
  void Unwatch(WatchId id);

  TimerId After(Nanos delay, Callback callback);
  void Cancel(TimerId id);
  // Calls `callback` once per `period` until the loop ends. The first call is one period from now.
  void Every(Nanos period, Callback callback);

  // Runs `callback` on the loop's thread. If the loop has ended, the callback is never run. Any thread.
  void Post(Callback callback);

  // Runs the loop and returns after Stop.
  void Run();
  // Any thread.
  void Stop();
  // Number of times that the loop woke up. The loop's thread.
  uint64_t wakeups() const { return wakeups_; }

 private:
  struct Watched {
    int fd;
    std::shared_ptr<Callback> readable;
  };

  EventLoop(const Clock& clock, Fd epoll, Fd wakeup)
      : clock_(clock), epoll_(std::move(epoll)), wakeup_(std::move(wakeup)) {}
  int WaitMillis() const;
  void RunTimers();
  void RunPosted();
  void Wake();

  const Clock& clock_;
  const Fd epoll_;
  const Fd wakeup_;
  // thread: loop
  std::map<WatchId, Watched> watched_;
  std::map<std::pair<MonoTime, TimerId>, Callback> timers_;
  std::map<TimerId, MonoTime> timer_times_;
  uint64_t next_id_ = 1;
  uint64_t wakeups_ = 0;

  Mutex mutex_;
  std::vector<Callback> posted_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_LOOP_EVENT_LOOP_H_
