// The members of a Kineto document in front of its rows.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_KINETO_HEADER_H_
#define LOCKSTEP_AGGREGATOR_TRACE_KINETO_HEADER_H_

#include "base/json/json_text.h"
#include "base/time.h"
#include "capture/align/clock_model.h"
#include "capture/model/capture.h"

namespace lockstep::trace {

// Everything up to and with the '[' of "traceEvents". `base`: what the rows' stamps count from. `shift`: how
// much the rank's own stamps were moved onto the job's clock.
void WriteKinetoHeader(const store::Capture& capture, const store::RankData& rank,
                       const align::ClockModel& clock, Nanos base, Nanos shift, JsonText& out);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_KINETO_HEADER_H_
