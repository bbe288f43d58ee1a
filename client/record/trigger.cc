#include "client/record/trigger.h"

#include <cstring>

namespace lockstep::client {
namespace {

using ring::Begin;
using ring::End;

constexpr Nanos kLeastTail = Nanos::Millis(1);
constexpr Nanos kLongestTail = Nanos::Seconds(2);

}  // namespace

// ---- the agent's thread ----

void Trigger::Set(const TriggerSpec& spec) {
  begin_.store(spec.begin, std::memory_order_relaxed);
  step_.store(spec.step, std::memory_order_relaxed);
  end_ = spec.end;
  steps_ = spec.steps;
  duration_ = spec.duration;
  limit_ = spec.limit;
  earliest_ = spec.earliest;
  range_length_ = static_cast<uint32_t>(spec.range.size() < kRangeBytes ? spec.range.size() : kRangeBytes);
  if (range_length_ > 0) std::memcpy(range_, spec.range.data(), range_length_);
  domain_at_ = 0;
  for (uint32_t i = range_length_; i-- > 1 && domain_at_ == 0;) {
    if (range_[i] == '@' && i + 1 < range_length_) domain_at_ = i + 1;
  }
  end_seen_.store(false, std::memory_order_relaxed);
  step_missed_.store(false, std::memory_order_relaxed);
  late_ns_.store(0, std::memory_order_relaxed);
  key_.store(0, std::memory_order_relaxed);
  ranges_.store(0, std::memory_order_relaxed);
  first_step_.store(kNoStep, std::memory_order_relaxed);
  marked_.store(false, std::memory_order_relaxed);
  last_step_.store(kNoStep, std::memory_order_relaxed);
  step_key_.store(0, std::memory_order_relaxed);
  step_ns_.store(0, std::memory_order_relaxed);
  phase_.store(Phase::kWaiting, std::memory_order_release);
}

void Trigger::Agree(uint64_t step) {
  step_.store(step, std::memory_order_relaxed);
  begin_.store(Begin::kAtStep, std::memory_order_release);
}

bool Trigger::GiveUp() {
  Phase expected = Phase::kWaiting;
  return phase_.compare_exchange_strong(expected, Phase::kClosed);
}

StepReport Trigger::Steps(HostTime now) const {
  const uint64_t step = last_step_.load(std::memory_order_acquire);
  if (step == kNoStep) return {};
  const Nanos known(step_ns_.load(std::memory_order_relaxed));
  const Nanos running = now - HostTime(last_step_at_.load(std::memory_order_relaxed));
  return {step, known > Nanos() ? known : running > Nanos(1) ? running : Nanos(1)};
}

// ---- any thread ----

bool Trigger::Matches(std::string_view text, std::string_view domain) const {
  if (domain_at_ != 0) {
    return text == std::string_view(range_, domain_at_ - 1) &&
           domain == std::string_view(range_ + domain_at_, range_length_ - domain_at_);
  }
  return text == std::string_view(range_, range_length_);
}

bool Trigger::Open(HostTime now) {
  if (now < earliest_) return false;
  Phase expected = Phase::kWaiting;
  if (!phase_.compare_exchange_strong(expected, Phase::kOpening)) return false;
  window_.Open(now, now + (end_ == End::kAfterDuration ? duration_ : limit_));
  phase_.store(Phase::kOpen, std::memory_order_release);
  return true;
}

void Trigger::Close(HostTime end) {
  Phase expected = Phase::kOpen;
  if (!phase_.compare_exchange_strong(expected, Phase::kClosed)) return;
  window_.EndAt(end);
  end_seen_.store(true, std::memory_order_relaxed);
}

void Trigger::CloseAfterSteps(HostTime now) {
  Nanos tail(step_ns_.load(std::memory_order_relaxed));
  if (tail < kLeastTail) tail = kLeastTail;
  if (tail > kLongestTail) tail = kLongestTail;
  Close(now + tail);
}

void Trigger::OnRange(std::string_view text, std::string_view domain, uint64_t key, HostTime now) {
  const Phase phase = phase_.load(std::memory_order_acquire);
  if (begin_.load(std::memory_order_relaxed) != Begin::kAtRange || !Matches(text, domain)) return;
  if (phase == Phase::kWaiting) {
    if (!Open(now)) return;
    ranges_.store(1, std::memory_order_relaxed);
    last_step_at_.store(now.ns(), std::memory_order_relaxed);
    key_.store(key, std::memory_order_release);
  } else if (phase == Phase::kOpen && end_ == End::kAfterSteps) {
    const int64_t before = last_step_at_.exchange(now.ns(), std::memory_order_relaxed);
    step_ns_.store(now.ns() - before, std::memory_order_relaxed);
    key_.store(key, std::memory_order_release);
    if (ranges_.fetch_add(1, std::memory_order_relaxed) >= steps_) CloseAfterSteps(now);
  }
}

void Trigger::OnRangeEnd(uint64_t key, HostTime now) {
  if (phase_.load(std::memory_order_acquire) != Phase::kOpen) return;
  if (key == key_.load(std::memory_order_acquire)) {
    if (end_ == End::kAtRangeEnd) Close(now);
    if (end_ == End::kAfterSteps && ranges_.load(std::memory_order_relaxed) >= steps_) {
      const Nanos range_time = now - HostTime(last_step_at_.load(std::memory_order_relaxed));
      if (range_time.ns() > step_ns_.load(std::memory_order_relaxed))
        step_ns_.store(range_time.ns(), std::memory_order_relaxed);
      CloseAfterSteps(now);
    }
    return;
  }
  const uint64_t first = first_step_.load(std::memory_order_relaxed);
  if (end_ == End::kAfterSteps && first != kNoStep && key == step_key_.load(std::memory_order_acquire) &&
      last_step_.load(std::memory_order_relaxed) + 1 >= first + steps_) {
    CloseAfterSteps(now);
  }
}

void Trigger::OnStep(uint64_t number, StepSource source, uint64_t key, HostTime now) {
  if (source == StepSource::kMarked) {
    marked_.store(true, std::memory_order_relaxed);
  } else if (marked_.load(std::memory_order_relaxed)) {
    return;
  }
  const Begin begin = begin_.load(std::memory_order_acquire);
  if (begin == Begin::kAtRange) return;  // the occurrences of that range are counted instead
  const uint64_t before = last_step_.load(std::memory_order_relaxed);
  if (before != kNoStep && number <= before) return;  // another mark of the same step, or a loop inside it
  const int64_t before_at = last_step_at_.exchange(now.ns(), std::memory_order_relaxed);
  if (before != kNoStep) {
    step_ns_.store((now.ns() - before_at) / static_cast<int64_t>(number - before), std::memory_order_relaxed);
  }
  step_key_.store(key, std::memory_order_relaxed);
  last_step_.store(number, std::memory_order_release);
  const Phase phase = phase_.load(std::memory_order_acquire);
  if (phase == Phase::kWaiting && begin == Begin::kAtStep) {
    const uint64_t wanted = step_.load(std::memory_order_relaxed);
    if (number + 1 < wanted || now < earliest_) return;
    first_step_.store(number < wanted ? wanted : number, std::memory_order_relaxed);
    step_missed_.store(number > wanted, std::memory_order_relaxed);
    Open(now);
  } else if (phase == Phase::kOpen && end_ == End::kAfterSteps) {
    uint64_t first = kNoStep;
    if (first_step_.compare_exchange_strong(first, number)) first = number;
    if (number >= first + steps_) CloseAfterSteps(now);
  }
}

void Trigger::OnProfilerStart(HostTime called, HostTime now) {
  if (!watching() || begin_.load(std::memory_order_acquire) != Begin::kAtProfilerStart) return;
  if (!Open(now)) return;
  late_ns_.store(now > called ? (now - called).ns() : 0, std::memory_order_relaxed);
}

void Trigger::OnProfilerStop(HostTime called) {
  if (phase_.load(std::memory_order_acquire) == Phase::kOpen && end_ == End::kAtProfilerStop &&
      called >= window_.t0()) {
    Close(called);
  }
}

}  // namespace lockstep::client
