// From a capture to what the simulated ranks replay.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_SCENARIO_WRITER_H_
#define LOCKSTEP_AGGREGATOR_TRACE_SCENARIO_WRITER_H_

#include "absl/status/statusor.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "scenario/scenario.h"

namespace lockstep::trace {

// A loop whose period is the whole window and whose origin is the earliest stamp of any rank, so that each
// rank keeps its own lateness. Every entry of Capture::ranks becomes a rank. Ranks are moved onto the job's
// clock as a whole: their durations stay exact. A communication kernel whose partners are not all known is
// kept as a kernel of its recorded length. kFailedPrecondition: there is no device work to replay.
absl::StatusOr<scenario::Scenario> MakeScenario(const store::Capture& capture, const align::Matches& matches,
                                                const align::ClockModel& clock);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_SCENARIO_WRITER_H_
