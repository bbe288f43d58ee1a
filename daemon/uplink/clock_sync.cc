#include "daemon/uplink/clock_sync.h"

namespace lockstep::daemon {

void ClockSync::Start(Query query) {
  Stop();
  {
    MutexLock lock(&mutex_);
    stopping_ = false;
    burst_left_ = kBurst;
  }
  thread_ = std::thread([this, query = std::move(query)] { Run(query); });
}

void ClockSync::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

void ClockSync::SetRate(ClockSyncRate rate) {
  {
    MutexLock lock(&mutex_);
    if (rate_ == rate) return;
    rate_ = rate;
    if (rate == ClockSyncRate::kCapture) burst_left_ = kBurst;
  }
  changed_.SignalAll();
}

void ClockSync::Run(const Query& query) {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    {
      MutexUnlock unlocked(&mutex_);
      Exchange(query);
    }
    if (burst_left_ > 0 && --burst_left_ > 0) continue;
    {
      MutexUnlock unlocked(&mutex_);
      ready_();
    }
    const ClockSyncRate rate = rate_;
    const Nanos pause = rate == ClockSyncRate::kCapture ? kCapturePause : kIdlePause;
    changed_.WaitFor(&mutex_, pause, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || rate_ != rate || burst_left_ > 0;
    });
  }
}

// Reads both clocks at one moment. A pause between the readings would look like a step of REALTIME. Returns
// false if every try had such a pause.
bool ClockSync::ReadBothClocks(HostTime& realtime, MonoTime& monotonic) const {
  for (int i = 0; i < kReadingTries; ++i) {
    const MonoTime before = clock_.Monotonic();
    realtime = clock_.Realtime();
    monotonic = clock_.Monotonic();
    if (monotonic - before <= kReadingGap) return true;
  }
  return false;
}

void ClockSync::Exchange(const Query& query) {
  ClockExchange exchange;
  exchange.t1 = clock_.Realtime();
  const std::optional<Answer> answer = query(exchange.t1);
  if (!ReadBothClocks(exchange.t4, exchange.monotonic) || !answer) return;
  exchange.t2 = answer->t2;
  exchange.t3 = answer->t3;

  MutexLock lock(&mutex_);
  if (!estimator_.Add(exchange)) return;
  // The samples are of no use to an aggregator that has been away for long.
  if (samples_.size() >= kMostSamples) samples_.erase(samples_.begin(), samples_.begin() + kMostSamples / 2);
  v1::ClockSample& sample = samples_.emplace_back();
  sample.set_t1_ns(exchange.t1.ns());
  sample.set_t2_ns(exchange.t2.ns());
  sample.set_t3_ns(exchange.t3.ns());
  sample.set_t4_ns(exchange.t4.ns());
  sample.set_monotonic_ns(exchange.monotonic.ns());
}

OffsetEstimate ClockSync::Estimate() const {
  MutexLock lock(&mutex_);
  return estimator_.At(clock_.Monotonic());
}

std::vector<v1::ClockSample> ClockSync::TakeSamples() {
  MutexLock lock(&mutex_);
  return std::exchange(samples_, {});
}

}  // namespace lockstep::daemon
