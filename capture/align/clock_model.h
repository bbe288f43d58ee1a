// Maps every host's clock to the job's clock, with an error bound.
#ifndef LOCKSTEP_CAPTURE_ALIGN_CLOCK_MODEL_H_
#define LOCKSTEP_CAPTURE_ALIGN_CLOCK_MODEL_H_

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::capture {

enum class ClockMethod : uint8_t { kNone, kNetwork, kCollectives, kBoth };

// host clock = job clock + offset + drift * (job clock - anchor). A host with a positive offset is ahead.
struct HostClock {
  Nanos offset;
  double drift = 0;  // 1e-6 is one part per million
  HostTime anchor;   // moment at which `offset` holds
  // The absolute error does not exceed this within the capture's window. Max(): nothing is known.
  Nanos bound = Nanos::Max();
  ClockMethod method = ClockMethod::kNone;
  // The evidence contradicts a straight run, so the clock was set. The bound covers that step.
  bool step_noticed = false;
};

// The clocks of all hosts. Copyable. Read-only after EstimateClocks, so any thread may use it.
class ClockModel {
 public:
  ClockModel() = default;
  explicit ClockModel(std::vector<HostClock> hosts) : hosts_(std::move(hosts)) {}

  // `host` indexes Capture::hosts. For capture::kNone the time is returned unchanged.
  JobTime ToJob(uint32_t host, HostTime t) const {
    if (host >= hosts_.size()) return JobTime(t.ns());
    const HostClock& c = hosts_[host];
    const double since = static_cast<double>((t - c.anchor).ns());
    return JobTime(t.ns() - c.offset.ns() - static_cast<int64_t>(c.drift * since));
  }
  const std::vector<HostClock>& hosts() const { return hosts_; }
  // Bound of the difference between any two hosts' clocks. A smaller time between two hosts means nothing.
  Nanos bound() const;

 private:
  std::vector<HostClock> hosts_;
};

// Estimates clocks from network exchanges where they exist. The ends of symmetric collectives refine or
// replace these estimates. A single host is its own job clock, with offset 0 and bound 0.
ClockModel EstimateClocks(const capture::Capture& capture, const Matches& matches);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_CLOCK_MODEL_H_
