// A straight line through noisy readings of one clock's lead over another, and the bound that goes with it.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_CLOCK_FIT_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_CLOCK_FIT_H_

#include <limits>
#include <vector>

#include "base/time.h"
#include "capture/align/offset_region.h"

namespace lockstep::align {

// One reading of a lead. `blur`: how far such a reading may be off by its nature (half a round trip, part of
// a transfer).
struct LeadSample {
  HostTime at;
  Nanos lead;
  Nanos blur;
};

struct ClockFit {
  OffsetLine line;  // about `origin`
  HostTime origin;
  Nanos bound = Nanos::Max();
  double error_ns = std::numeric_limits<double>::infinity();  // what the line is off by, typically
  // No straight line obeys all limits: one of the clocks was set in between. The bound covers both sides of
  // that.
  bool stepped = false;
  bool contradicted =
      false;  // even a step explains nothing: the limits belong to different things, and no bound is known
};

// Robust line through the sharpest samples, moved into the region. Where no line fits, the limits are parted
// at the moment before which and after which some line does; where that does not help either, `region` is
// given more and more slack until one fits, and the slack is part of the bound. The bound holds over all of
// `window`. A lead, or a drift, that is not larger than its own uncertainty is taken to be 0: agreeing clocks
// get no correction.
ClockFit FitLead(std::vector<LeadSample> samples, OffsetRegion& region, HostInterval window);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_CLOCK_FIT_H_
