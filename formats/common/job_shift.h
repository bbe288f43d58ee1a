// How writers put a rank's stamps on the job's clock.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_JOB_SHIFT_H_
#define LOCKSTEP_AGGREGATOR_TRACE_JOB_SHIFT_H_

#include "capture/align/clock_model.h"
#include "capture/model/capture.h"

namespace lockstep::trace {

// What to add to each of the rank's stamps. One shift for the whole rank keeps every duration as it was
// measured; the drift over half a window remains.
inline Nanos JobShift(const align::ClockModel& clock, const store::RankData& rank) {
  const HostTime middle = rank.window.start + rank.window.length() / 2;
  return Nanos(clock.ToJob(rank.host, middle).ns() - middle.ns());
}

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_JOB_SHIFT_H_
