// JobShift(): the offset by which writers move a rank's time stamps onto the job's clock.
#ifndef LOCKSTEP_FORMATS_COMMON_JOB_SHIFT_H_
#define LOCKSTEP_FORMATS_COMMON_JOB_SHIFT_H_

#include "capture/align/clock_model.h"
#include "capture/model/capture.h"

namespace lockstep::formats {

// Returns the offset to add to each time stamp of the rank. One offset for the whole rank keeps every
// duration as measured; the clock's drift over half a window remains.
inline Nanos JobShift(const capture::ClockModel& clock, const capture::RankData& rank) {
  const HostTime middle = rank.window.start + rank.window.length() / 2;
  return Nanos(clock.ToJob(rank.host, middle).ns() - middle.ns());
}

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_JOB_SHIFT_H_
