// Fits a straight line to noisy readings of one clock's lead over another, and bounds its error.
#ifndef LOCKSTEP_CAPTURE_ALIGN_CLOCK_FIT_H_
#define LOCKSTEP_CAPTURE_ALIGN_CLOCK_FIT_H_

#include <limits>
#include <optional>
#include <vector>

#include "base/time.h"
#include "capture/align/offset_region.h"

namespace lockstep::capture {

// One reading of a lead. `uncertainty` is its inherent uncertainty: half a round trip, or part of a transfer.
struct LeadSample {
  HostTime at;
  Nanos lead;
  Nanos uncertainty;
  // Set if the reading is the distance between the ends of members that leave together. The value is the
  // exit skew: the largest distance between two members on one host, which share a clock; Max() if no host
  // has two members.
  std::optional<Nanos> exit_skew = std::nullopt;
};

struct ClockFit {
  OffsetLine line;  // about `origin`
  HostTime origin;
  Nanos bound = Nanos::Max();
  double error_ns = std::numeric_limits<double>::infinity();  // typical error of the line
  // No straight line obeys all limits, because one of the clocks was set in between. The bound covers both
  // sides of that step.
  bool stepped = false;
  bool contradicted =
      false;  // not even a step explains the limits: some come from wrong matches, and no bound is known
};

// Fits a robust line through the sharpest samples and moves it into the region. If no line fits, the limits
// are divided at a moment, with one line before it and another one after it. If that fails too, `region` gets
// growing slack until a line fits, and the slack is part of the bound. The bound holds over all of `window`.
// Members that leave together limit the lead to the distance of their ends, plus or minus an allowance for
// the exit skew that the samples show (docs/clocks.md).
// A lead or a drift below its own uncertainty becomes 0, so clocks that agree get no correction.
ClockFit FitLead(std::vector<LeadSample> samples, OffsetRegion& region, HostInterval window);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_CLOCK_FIT_H_
