// Durations for a Prometheus histogram.
#ifndef LOCKSTEP_BASE_METRICS_HISTOGRAM_H_
#define LOCKSTEP_BASE_METRICS_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace lockstep::metrics {

// It can be copied. One thread at a time may use it, and its owner guards it.
class DurationHistogram {
 public:
  // Captures and their analysis take between tenths of a second and ten minutes, the longest permitted
  // capture.
  static constexpr std::array<Nanos, 10> kBounds = {
      Nanos::Millis(100), Nanos::Millis(300), Nanos::Seconds(1),  Nanos::Seconds(3),   Nanos::Seconds(5),
      Nanos::Seconds(10), Nanos::Seconds(30), Nanos::Seconds(60), Nanos::Seconds(180), Nanos::Seconds(600)};

  void Observe(Nanos took) {
    const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), took) - kBounds.begin();
    ++buckets_[static_cast<size_t>(bucket)];
    ++count_;
    sum_ += took;
  }
  // Counts durations above the previous bound and up to this one.
  uint64_t in_bucket(size_t bound) const { return buckets_[bound]; }
  uint64_t count() const { return count_; }
  Nanos sum() const { return sum_; }

 private:
  std::array<uint64_t, kBounds.size() + 1> buckets_{};
  uint64_t count_ = 0;
  Nanos sum_;
};

}  // namespace lockstep::metrics

#endif  // LOCKSTEP_BASE_METRICS_HISTOGRAM_H_
