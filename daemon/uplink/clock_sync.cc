#include "daemon/uplink/clock_sync.h"

#include <chrono>

namespace lockstep::daemon {

void ClockSync::Start(Ask ask) {
  Stop();
  {
    std::lock_guard lock(mutex_);
    stopping_ = false;
    burst_left_ = kBurst;
  }
  thread_ = std::thread([this, ask = std::move(ask)] { Run(ask); });
}

void ClockSync::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ClockSync::SetPace(ClockPace pace) {
  {
    std::lock_guard lock(mutex_);
    if (pace_ == pace) return;
    pace_ = pace;
    if (pace == ClockPace::kCapture) burst_left_ = kBurst;
  }
  changed_.notify_all();
}

void ClockSync::Run(const Ask& ask) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    Exchange(ask);
    lock.lock();
    if (burst_left_ > 0 && --burst_left_ > 0) continue;
    lock.unlock();
    ready_();
    lock.lock();
    const ClockPace pace = pace_;
    const Nanos pause = pace == ClockPace::kCapture ? kCapturePause : kIdlePause;
    changed_.wait_for(lock, std::chrono::nanoseconds(pause.ns()),
                      [&] { return stopping_ || pace_ != pace || burst_left_ > 0; });
  }
}

// Both clocks at one moment. A pause between the two readings would look like a step of REALTIME: false when
// none of the tries came through without one.
bool ClockSync::ReadTogether(HostTime& realtime, MonoTime& monotonic) const {
  for (int i = 0; i < kReadingTries; ++i) {
    const MonoTime before = clock_.Monotonic();
    realtime = clock_.Realtime();
    monotonic = clock_.Monotonic();
    if (monotonic - before <= kReadingGap) return true;
  }
  return false;
}

void ClockSync::Exchange(const Ask& ask) {
  ClockExchange exchange;
  exchange.t1 = clock_.Realtime();
  const std::optional<Answer> answer = ask(exchange.t1);
  if (!ReadTogether(exchange.t4, exchange.monotonic) || !answer) return;
  exchange.t2 = answer->t2;
  exchange.t3 = answer->t3;

  std::lock_guard lock(mutex_);
  if (!estimator_.Add(exchange)) return;
  // An aggregator that is away has no use for old samples.
  if (samples_.size() >= kMostSamples) samples_.erase(samples_.begin(), samples_.begin() + kMostSamples / 2);
  v1::ClockSample& sample = samples_.emplace_back();
  sample.set_t1_ns(exchange.t1.ns());
  sample.set_t2_ns(exchange.t2.ns());
  sample.set_t3_ns(exchange.t3.ns());
  sample.set_t4_ns(exchange.t4.ns());
  sample.set_monotonic_ns(exchange.monotonic.ns());
}

OffsetEstimate ClockSync::Estimate() const {
  std::lock_guard lock(mutex_);
  return estimator_.At(clock_.Monotonic());
}

std::vector<v1::ClockSample> ClockSync::TakeSamples() {
  std::lock_guard lock(mutex_);
  return std::exchange(samples_, {});
}

}  // namespace lockstep::daemon
