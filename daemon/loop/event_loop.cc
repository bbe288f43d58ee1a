#include "daemon/loop/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace lockstep::daemon {
namespace {

constexpr EventLoop::WatchId kWakeup = 0;
constexpr int kEventsPerTurn = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Create(const Clock& clock) {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  Fd wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.ok() || !wakeup.ok())
    return absl::ErrnoToStatus(errno, "cannot create the event loop's descriptors");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeup;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wakeup.get(), &event) != 0) {
    return absl::ErrnoToStatus(errno, "cannot watch the event loop's own descriptor");
  }
  return std::unique_ptr<EventLoop>(new EventLoop(clock, std::move(epoll), std::move(wakeup)));
}

absl::StatusOr<EventLoop::WatchId> EventLoop::Watch(int fd, Callback readable) {
  const WatchId id = next_id_++;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return absl::ErrnoToStatus(errno, "cannot watch a descriptor");
  watched_[id] = {fd, std::make_shared<Callback>(std::move(readable))};
  return id;
}

void EventLoop::Unwatch(WatchId id) {
  const auto it = watched_.find(id);
  if (it == watched_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second.fd, nullptr);
  watched_.erase(it);
}

EventLoop::TimerId EventLoop::After(Nanos delay, Callback callback) {
  const TimerId id = next_id_++;
  const MonoTime at = clock_.Monotonic() + delay;
  timers_[{at, id}] = std::move(callback);
  timer_times_[id] = at;
  return id;
}

void EventLoop::Cancel(TimerId id) {
  const auto it = timer_times_.find(id);
  if (it == timer_times_.end()) return;
  timers_.erase({it->second, id});
  timer_times_.erase(it);
}

void EventLoop::Every(Nanos period, Callback callback) {
  After(period, [this, period, callback = std::move(callback)] {
    callback();
    Every(period, callback);
  });
}

void EventLoop::Post(Callback callback) {
  {
    MutexLock lock(&mutex_);
    posted_.push_back(std::move(callback));
  }
  Wake();
}

void EventLoop::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Wake();
}

void EventLoop::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n =
      write(wakeup_.get(), &one,
            sizeof(one));  // the write fails only if the counter is full, and then the loop wakes anyway
}

int EventLoop::WaitMillis() const {
  if (timers_.empty()) return -1;
  const Nanos wait = timers_.begin()->first.first - clock_.Monotonic();
  return static_cast<int>(std::clamp<int64_t>((wait.ns() + 999'999) / 1'000'000, 0, 60'000));
}

void EventLoop::RunTimers() {
  const MonoTime now = clock_.Monotonic();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    const auto node = timers_.extract(timers_.begin());
    timer_times_.erase(node.key().second);
    node.mapped()();
  }
}

void EventLoop::RunPosted() {
  std::vector<Callback> posted;
  {
    MutexLock lock(&mutex_);
    posted.swap(posted_);
  }
  for (const Callback& callback : posted) callback();
}

void EventLoop::Run() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    epoll_event events[kEventsPerTurn];
    const int count = epoll_wait(epoll_.get(), events, kEventsPerTurn, WaitMillis());
    ++wakeups_;
    for (int i = 0; i < count; ++i) {
      const WatchId id = events[i].data.u64;
      if (id == kWakeup) {
        uint64_t ignored = 0;
        [[maybe_unused]] const ssize_t n = read(wakeup_.get(), &ignored, sizeof(ignored));
        continue;
      }
      // An earlier callback may have unwatched `id`, and this callback may unwatch itself while it runs.
      const auto it = watched_.find(id);
      if (it == watched_.end()) continue;
      const std::shared_ptr<Callback> readable = it->second.readable;
      (*readable)();
    }
    RunPosted();
    RunTimers();
  }
}

}  // namespace lockstep::daemon
