#include "daemon/uplink/offset_estimator.h"

#include <algorithm>
#include <cstdlib>

namespace lockstep::daemon {
namespace {

// The process may lose the CPU between the readings of REALTIME and MONOTONIC. A larger difference is a step.
constexpr Nanos kReadingSlack = Nanos::Millis(5);

Nanos Abs(Nanos d) { return d < Nanos() ? -d : d; }

Nanos MaxDriftOver(Nanos age) {
  return Nanos(
      static_cast<int64_t>(static_cast<double>(std::max(age, Nanos()).ns()) * OffsetEstimator::kMaxDrift));
}

}  // namespace

Nanos OffsetEstimator::Bound(const Sample& sample, MonoTime now) {
  return sample.uncertainty + MaxDriftOver(now - sample.at);
}

// Returns true if no offset fits both this sample and an earlier one: a clock was set in between.
bool OffsetEstimator::Contradicts(const Sample& sample) const {
  return std::any_of(samples_.begin(), samples_.end(), [&](const Sample& before) {
    const Nanos age = sample.at - before.at;
    if (Abs(sample.realtime_ahead - before.realtime_ahead) > kReadingSlack + MaxDriftOver(age)) return true;
    return Abs(sample.offset - before.offset) > sample.uncertainty + Bound(before, sample.at);
  });
}

bool OffsetEstimator::Add(const ClockExchange& e) {
  // The wire may carry any 64-bit number. Within 2^61 no sum below overflows.
  constexpr int64_t kLargestPlausible = int64_t{1} << 61;
  for (int64_t t : {e.t1.ns(), e.t2.ns(), e.t3.ns(), e.t4.ns(), e.monotonic.ns()}) {
    if (t < 0 || t > kLargestPlausible) return false;
  }
  const Nanos round_trip = (e.t4 - e.t1) - (e.t3 - e.t2);
  if (e.t4 < e.t1 || e.t3 < e.t2 || round_trip < Nanos()) return false;

  const int64_t ahead_at_send = e.t1.ns() - e.t2.ns();
  const int64_t ahead_at_receipt = e.t4.ns() - e.t3.ns();
  Sample sample;
  sample.offset = Nanos(ahead_at_send + (ahead_at_receipt - ahead_at_send) / 2);
  sample.uncertainty = Nanos(round_trip.ns() / 2 + 1);
  sample.at = e.monotonic;
  sample.realtime_ahead = Nanos(e.t4.ns() - e.monotonic.ns());

  if (Contradicts(sample)) {
    samples_.clear();
    ++steps_;
  }
  samples_.push_back(sample);
  if (samples_.size() > kMostSamples) {
    // The sample with the largest bound is removed, so that a burst of slow exchanges cannot displace a good
    // one.
    const auto worst = std::max_element(
        samples_.begin(), samples_.end() - 1,
        [&](const Sample& a, const Sample& b) { return Bound(a, sample.at) < Bound(b, sample.at); });
    samples_.erase(worst);
  }
  return true;
}

OffsetEstimate OffsetEstimator::At(MonoTime now) const {
  if (samples_.empty()) return {};
  const auto best = std::min_element(samples_.begin(), samples_.end(), [&](const Sample& a, const Sample& b) {
    return Bound(a, now) < Bound(b, now);
  });
  return {true, best->offset, Bound(*best, now)};
}

}  // namespace lockstep::daemon
