// StartPlan holds the times at which a capture's processes start and stop recording. They come from the
// aggregator's Start message, and are on this host's clock.
//
// A value without outside connections. Any thread.
#ifndef LOCKSTEP_DAEMON_CAPTURES_START_PLAN_H_
#define LOCKSTEP_DAEMON_CAPTURES_START_PLAN_H_

#include <cstdint>
#include <functional>

#include "base/time.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"
#include "wire/ring/handshake.h"

namespace lockstep::daemon {

struct StartPlan {
  // `to_host` converts from the aggregator's clock.
  StartPlan(const v1::Start& start, const std::function<HostTime(JobTime)>& to_host);

  // A trigger opens the window, instead of a time.
  bool triggered() const { return trigger.begin() != v1::Trigger::AT_T0; }
  // Returns true if no window is empty, longer than `longest`, or further ahead than `longest`.
  bool IsPossible(HostTime now, Nanos longest) const;
  // Returns the time from `now` until every client has recorded its window.
  Nanos LongestWait(HostTime now) const;
  // The same for PyTorch's profilers.
  Nanos LongestKinetoWait(HostTime now) const;
  // Returns the message that starts a client in capture `number`.
  ring::Start ForClient(uint64_t number) const;
  // Returns the message that starts a profiler in capture `number`, in its own window (IN_WINDOW).
  ring::Start ForKinetoWindow(uint64_t number) const;

  v1::Trigger trigger;  // AT_T0 if there is no trigger
  HostInterval window;
  v1::Start::KinetoBegin kineto_begin = v1::Start::BY_ITERATION;
  HostInterval kineto_window;  // used with IN_WINDOW
  uint64_t kineto_multiple = 1;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_START_PLAN_H_
