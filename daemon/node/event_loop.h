// The daemon's main thread: descriptors, timers and calls from other threads, one after the other.
#ifndef LOCKSTEP_DAEMON_EVENT_LOOP_H_
#define LOCKSTEP_DAEMON_EVENT_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/time.h"

namespace lockstep::daemon {

// All but Post and Stop: only on the thread that runs the loop, or before it runs. Callbacks may watch,
// unwatch and schedule as they like, themselves included.
class EventLoop {
 public:
  using Callback = std::function<void()>;
  using WatchId = uint64_t;
  using TimerId = uint64_t;

  static absl::StatusOr<std::unique_ptr<EventLoop>> Create(const Clock& clock);

  // `readable` is called whenever `fd` has something to read or was closed by the peer. Unwatch before
  // closing it.
  absl::StatusOr<WatchId> Watch(int fd, Callback readable);
  void Unwatch(WatchId id);

  TimerId After(Nanos delay, Callback callback);
  void Cancel(TimerId id);

  // Any thread: runs `callback` on the loop's thread; never when the loop has ended.
  void Post(Callback callback);

  // Until Stop.
  void Run();
  // Any thread.
  void Stop();
  // How often it found something to do. The loop's thread.
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
  std::map<WatchId, Watched> watched_;
  std::map<std::pair<MonoTime, TimerId>, Callback> timers_;
  std::map<TimerId, MonoTime> timer_times_;
  uint64_t next_id_ = 1;
  uint64_t wakeups_ = 0;

  std::mutex mutex_;
  std::vector<Callback> posted_;
  bool stopping_ = false;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_EVENT_LOOP_H_
