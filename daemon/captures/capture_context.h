// The data that the parts of Captures share: the context of all captures, and the facts of one capture.
#ifndef LOCKSTEP_DAEMON_CAPTURES_CAPTURE_CONTEXT_H_
#define LOCKSTEP_DAEMON_CAPTURES_CAPTURE_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/time.h"
#include "daemon/captures/capture_path.h"
#include "daemon/captures/capture_uplinks.h"
#include "daemon/captures/start_plan.h"
#include "daemon/node/process.h"

namespace lockstep::daemon {

struct CaptureLimits {
  Nanos arm_timeout = Nanos::Seconds(10);  // if the Arm names none
  Nanos longest_arm_timeout = Nanos::Seconds(600);
  Nanos wait_for_start = Nanos::Seconds(120);  // beyond the arm timeout
  Nanos wait_for_done = Nanos::Seconds(15);    // beyond T1
  // Like wait_for_done, for PyTorch's profiler: it processes and writes the whole trace before any byte is
  // available.
  Nanos wait_for_kineto = Nanos::Seconds(200);
  Nanos keep_ended = Nanos::Seconds(60);  // so that a returning aggregator receives the result
  // A capture whose aggregator has been away for longer gives its processes to another aggregator's.
  Nanos owner_away = Nanos::Seconds(2);
  Nanos longest_window = Nanos::Seconds(24 * 3600);
  // Limits per aggregator, which any user may run. Further processes in an Arm are ignored; further captures
  // are refused.
  int most_processes = 4096;
  size_t most_captures = 32;
};

// All references outlive it.
struct CaptureContext {
  const Clock& clock;
  CaptureUplinks& uplinks;
  CapturePath& client;  // through our client
  CapturePath& kineto;  // through PyTorch's profiler
  const CaptureLimits limits;
  const CaptureTime time;
  // Processes that received an abort and have not answered since. They may still write records of that
  // capture.
  std::set<ProcessId> aborting = {};
};

struct CaptureFacts {
  std::string id;  // the aggregator's name for it
  UplinkId uplink = 0;
  uint64_t number = 0;            // number of the capture in messages to clients
  std::optional<StartPlan> plan;  // set by the Start
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_CAPTURE_CONTEXT_H_
