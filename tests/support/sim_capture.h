// A dry run of simulated ranks as the capture that the client, the daemon and the store would have made of
// it.
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
  // What is captured: everything that starts in [from, to).
  VirtualTime from = VirtualTime::Min();
  VirtualTime to = VirtualTime::Max();
  // What the sources of a capture may leave out.
  bool with_sequences = true;  // NCCL's communicators and sequence numbers; else only kernel names are known
  bool with_events = true;     // which event a stream waits for, and where it was recorded
  // Per rank: its clock's lead at the epoch, and how fast it gains. Every rank with an entry is a host of its
  // own.
  struct Clock {
    Nanos offset;
    double drift = 0;
  };
  std::vector<Clock> clocks;
};

// The epoch of the capture's stamps: virtual 0.
inline constexpr int64_t kSimEpochNs = 1'750'000'000'000'000'000;

// Finish()ed, and communicators inferred where options leave them out.
store::Capture CaptureOf(const scenario::Scenario& scenario, const sim::WorldHistory& history,
                         const SimCaptureOptions& options);

// Of all ranks' turns whose first op starts in the window, leaving out the first and the last: mean length.
Nanos TrueStep(const sim::WorldHistory& history, VirtualTime from, VirtualTime to);

}  // namespace lockstep::tests

#endif  // LOCKSTEP_TESTS_SUPPORT_SIM_CAPTURE_H_
