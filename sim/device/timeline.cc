#include "sim/device/timeline.h"

#include <sys/prctl.h>

#include <algorithm>
#include <limits>

namespace lockstep::sim {

Timeline::Timeline(Clock clock, std::function<void(int64_t)> tick)
    : clock_(std::move(clock)), tick_(std::move(tick)) {}

Timeline::~Timeline() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
  }
  wake_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

void Timeline::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Timeline::Submit(const ItemRef& item) {
  MutexLock lock(&mutex_);
  open_.push_back(item);
  changed_ = true;
  wake_.SignalAll();
}

void Timeline::Wait(const ItemRef& item) {
  MutexLock lock(&mutex_);
  finished_.Wait(&mutex_, [&] { return item->done; });
}

bool Timeline::Done(const ItemRef& item) {
  MutexLock lock(&mutex_);
  return item->done;
}

void Timeline::WaitForAll() {
  MutexLock lock(&mutex_);
  const std::vector<ItemRef> all(open_.begin(), open_.end());
  finished_.Wait(
      &mutex_, [&] { return std::all_of(all.begin(), all.end(), [](const ItemRef& i) { return i->done; }); });
}

void Timeline::SetEnd(const ItemRef& item, int64_t end_ns) {
  MutexLock lock(&mutex_);
  item->end_ns = end_ns;
  changed_ = true;
  wake_.SignalAll();
}

void Timeline::SetDone(const ItemRef& item) {
  MutexLock lock(&mutex_);
  item->effects_done = true;
  changed_ = true;
  wake_.SignalAll();
}

bool Timeline::AdvanceItem(Item& item, const ItemRef& ref, int64_t now) {
  const auto known = [](const ItemRef& i) { return i->end_ns >= 0; };
  const auto over = [](const ItemRef& i) { return i->done; };
  if (item.start_ns < 0) {
    if (!std::all_of(item.after.begin(), item.after.end(), known)) return false;
    int64_t start = item.earliest_start_ns;
    for (const ItemRef& before : item.after) start = std::max(start, before->end_ns);
    item.start_ns = start;
    if (item.external == nullptr) item.end_ns = start + item.duration_ns;
    if (item.external != nullptr) {
      MutexUnlock unlocked(&mutex_);
      item.external->Entered(ref, start);
    }
  }
  if (item.end_ns >= 0 && item.timed != nullptr) {
    const auto timed = std::move(item.timed);
    item.timed = nullptr;
    MutexUnlock unlocked(&mutex_);
    timed(item);
  }
  if (!item.begun && now >= item.start_ns && std::all_of(item.after.begin(), item.after.end(), over)) {
    item.begun = true;
    {
      MutexUnlock unlocked(&mutex_);
      if (item.effect != nullptr) item.effect();
      if (item.external != nullptr) item.external->Begin(ref);
    }
    if (item.external == nullptr) item.effects_done = true;
  }
  return item.begun && item.effects_done && item.end_ns >= 0 && now >= item.end_ns;
}

int64_t Timeline::Advance() {
  int64_t now = 0;
  int64_t next = std::numeric_limits<int64_t>::max();
  {
    MutexLock lock(&mutex_);
    changed_ = false;
    now = clock_();
    bool any_done = false;
    for (auto it = open_.begin(); it != open_.end();) {
      const ItemRef ref = *it;
      if (AdvanceItem(*ref, ref, now)) {
        ref->done = true;
        ref->after.clear();  // otherwise the last item would keep all earlier items alive
        ref->effect = nullptr;
        ref->external = nullptr;
        any_done = true;
        it = open_.erase(it);
        continue;
      }
      if (ref->start_ns >= 0 && !ref->begun && ref->start_ns > now) next = std::min(next, ref->start_ns);
      if (ref->end_ns > now) next = std::min(next, ref->end_ns);
      ++it;
    }
    if (any_done) finished_.SignalAll();
  }
  if (tick_ != nullptr) tick_(now);
  return next;
}

void Timeline::Run() {
  prctl(PR_SET_NAME, "simgpu");
  prctl(PR_SET_TIMERSLACK, 1);  // sleeps end on time
  while (true) {
    const int64_t next = Advance();
    MutexLock lock(&mutex_);
    const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_ || changed_; };
    if (stop_) return;
    if (next == std::numeric_limits<int64_t>::max()) {
      wake_.Wait(&mutex_, ready);
    } else {
      const int64_t left = next - clock_();
      if (left > 0) wake_.WaitFor(&mutex_, Nanos(left), ready);
    }
    if (stop_) return;
  }
}

}  // namespace lockstep::sim
