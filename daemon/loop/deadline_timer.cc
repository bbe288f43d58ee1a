#include "daemon/loop/deadline_timer.h"

#include <algorithm>
#include <utility>

namespace lockstep::daemon {

DeadlineTimer::DeadlineTimer(EventLoop& loop, const Clock& clock, std::function<void()> passed)
    : loop_(loop), clock_(clock), passed_(std::move(passed)) {}

DeadlineTimer::~DeadlineTimer() { Set(std::nullopt); }

void DeadlineTimer::Set(std::optional<MonoTime> deadline) {
  if (timer_) loop_.Cancel(*timer_);
  timer_.reset();
  if (!deadline) return;
  timer_ = loop_.After(std::max(*deadline - clock_.Monotonic(), Nanos()), [this] {
    timer_.reset();
    passed_();
  });
}

}  // namespace lockstep::daemon
