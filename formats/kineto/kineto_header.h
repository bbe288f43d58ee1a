// Writes the members of a Kineto document that come before its rows.
#ifndef LOCKSTEP_FORMATS_KINETO_KINETO_HEADER_H_
#define LOCKSTEP_FORMATS_KINETO_KINETO_HEADER_H_

#include "base/json/json_text.h"
#include "base/time.h"
#include "capture/align/clock_model.h"
#include "capture/model/capture.h"

namespace lockstep::formats {

// Writes everything up to and including the '[' of "traceEvents". `base`: the origin of the rows' stamps.
// `shift`: the offset that was added to the rank's own stamps to move them onto the job's clock.
void WriteKinetoHeader(const capture::Capture& capture, const capture::RankData& rank,
                       const capture::ClockModel& clock, Nanos base, Nanos shift, JsonText& out);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_KINETO_HEADER_H_
