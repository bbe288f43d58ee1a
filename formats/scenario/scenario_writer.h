// Converts a capture into a scenario, which the simulated ranks replay.
#ifndef LOCKSTEP_FORMATS_SCENARIO_SCENARIO_WRITER_H_
#define LOCKSTEP_FORMATS_SCENARIO_SCENARIO_WRITER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files/byte_sink.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "scenario/scenario.h"

namespace lockstep::formats {

// The scenario is a loop. Its period is the whole window, and its origin is the earliest stamp of any rank,
// so that each rank keeps its lateness. Every entry of Capture::ranks becomes a rank.
//
// A rank moves onto the job's clock by one constant, so durations stay exact. A communication kernel whose
// partners are not all known stays a kernel of its recorded length. kFailedPrecondition: the capture has no
// device work.
absl::StatusOr<scenario::Scenario> MakeScenario(const capture::Capture& capture,
                                                const capture::Matches& matches,
                                                const capture::ClockModel& clock);

// Writes the scenario as text (docs/formats/scenario.md).
absl::Status WriteScenario(const capture::Capture& capture, const capture::Matches& matches,
                           const capture::ClockModel& clock, ByteSink& sink);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_SCENARIO_SCENARIO_WRITER_H_
