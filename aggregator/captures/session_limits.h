// SessionLimits are the times that a capture waits, and the amounts that it stores.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_SESSION_LIMITS_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_SESSION_LIMITS_H_

#include <cstdint>

#include "base/time.h"

namespace lockstep::aggregator {

// Beyond a limit, the capture ends, and the rest of its records is counted as lost.
struct StoreLimits {
  uint64_t bytes = uint64_t{8} << 30;  // on disk, before its report
  uint64_t rows = 100'000'000;
};

struct SessionLimits {
  Nanos arm_timeout = Nanos::Seconds(10);   // if the request names none
  Nanos least_lead = Nanos::Millis(50);     // from START to T0
  Nanos longest_lead = Nanos::Seconds(60);  // upper limit, whatever a rank requests
  Nanos gone_wait = Nanos::Seconds(5);      // for the last records of a process that is gone
  Nanos quiet = Nanos::Seconds(10);         // draining: longest silence of the daemons that still owe records
  Nanos drain = Nanos::Seconds(120);        // draining: total limit
  // Replace `quiet` and `drain` if PyTorch's profiler captures any rank: it processes for minutes and then
  // sends everything at once.
  Nanos kineto_quiet = Nanos::Seconds(30);
  Nanos kineto_drain = Nanos::Seconds(600);
  Nanos abandon_wait = Nanos::Seconds(3);  // draining, when the aggregator ends
  Nanos progress = Nanos::Millis(200);     // between progress events
  // For a caller whose connection broke to follow its capture again; then the capture ends.
  Nanos caller_wait = Nanos::Seconds(10);
  StoreLimits store;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_SESSION_LIMITS_H_
