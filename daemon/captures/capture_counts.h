// CaptureCounts holds the results of captures since the daemon started. Each capture counts once; later
// events do not change its result.
#ifndef LOCKSTEP_DAEMON_CAPTURES_CAPTURE_COUNTS_H_
#define LOCKSTEP_DAEMON_CAPTURES_CAPTURE_COUNTS_H_

#include <cstdint>

#include "base/metrics/histogram.h"

namespace lockstep::daemon {

struct CaptureCounts {
  uint64_t complete = 0;  // every local process is done
  uint64_t partial = 0;
  uint64_t failed = 0;   // no local process is done
  uint64_t aborted = 0;  // its data was discarded
  uint64_t processes_done = 0;
  uint64_t processes_failed = 0;
  uint64_t processes_gone = 0;
  metrics::DurationHistogram took;  // from the Arm to the last process's end; without aborted captures
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_CAPTURE_COUNTS_H_
