// Turns a dry run of simulated ranks into a capture, as client, daemon and store would have made it.
#ifndef LOCKSTEP_TESTS_SUPPORT_SIM_CAPTURE_H_
#define LOCKSTEP_TESTS_SUPPORT_SIM_CAPTURE_H_

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "capture/model/capture.h"
#include "scenario/scenario.h"
#include "sim/engine/dry_run.h"

namespace lockstep::tests {

struct SimCaptureOptions {
  // The capture holds all records that start in [from, to).
  VirtualTime from = VirtualTime::Min();
  VirtualTime to = VirtualTime::Max();
  // Data that the source of a capture may lack.
  bool with_sequences = true;  // NCCL's communicators and sequence numbers; without it, only kernel names
  bool with_events = true;     // the event of each stream wait and the place of its record
  // Per rank: the clock's lead at the epoch and its drift. Every rank with an entry is a separate host.
  struct Clock {
    Nanos offset;
    double drift = 0;
  };
  std::vector<Clock> clocks;
};

// The time of virtual 0 in the capture's stamps, in ns since 1970.
inline constexpr int64_t kSimEpochNs = 1'750'000'000'000'000'000;

// Calls capture::Finish(), which infers communicators if the options leave them out.
capture::Capture CaptureOf(const scenario::Scenario& scenario, const sim::WorldHistory& history,
                           const SimCaptureOptions& options);

// Returns the mean length of all ranks' iterations whose first op starts in the window, without the first and
// the last iteration.
Nanos TrueStep(const sim::WorldHistory& history, VirtualTime from, VirtualTime to);

}  // namespace lockstep::tests

#endif  // LOCKSTEP_TESTS_SUPPORT_SIM_CAPTURE_H_
