// Every host's clock on the job's clock, with a bound.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_CLOCK_MODEL_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_CLOCK_MODEL_H_

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::align {

enum class ClockMethod : uint8_t { kNone, kNetwork, kCollectives, kBoth };

// host clock = job clock + offset + drift * (job clock - anchor), so offset is what the host is ahead.
struct HostClock {
  Nanos offset;
  double drift = 0;  // 1e-6 is one part per million
  HostTime anchor;   // where offset holds
  // Half-width that is never smaller than the error, over the capture's window. Max(): nothing is known.
  Nanos bound = Nanos::Max();
  ClockMethod method = ClockMethod::kNone;
  // Something contradicts that it ran straight: it was set, and the bound covers that.
  bool step_noticed = false;
};

// Copyable, read-only after EstimateClocks; any thread.
class ClockModel {
 public:
  ClockModel() = default;
  explicit ClockModel(std::vector<HostClock> hosts) : hosts_(std::move(hosts)) {}

  // `host` indexes Capture::hosts; store::kNone maps unchanged.
  JobTime ToJob(uint32_t host, HostTime t) const {
    if (host >= hosts_.size()) return JobTime(t.ns());
    const HostClock& c = hosts_[host];
    const double since = static_cast<double>((t - c.anchor).ns());
    return JobTime(t.ns() - c.offset.ns() - static_cast<int64_t>(c.drift * since));
  }
  const std::vector<HostClock>& hosts() const { return hosts_; }
  // Of any two hosts' difference: what a cross-host number must exceed to mean something.
  Nanos bound() const;

 private:
  std::vector<HostClock> hosts_;
};

// From network exchanges where there are some, refined or replaced by the ends of symmetric collectives. A
// single host is its own job clock: offset 0, bound 0.
ClockModel EstimateClocks(const store::Capture& capture, const Matches& matches);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_CLOCK_MODEL_H_
