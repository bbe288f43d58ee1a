// Traces out: one function per format (docs/formats/).
#ifndef LOCKSTEP_AGGREGATOR_TRACE_WRITERS_H_
#define LOCKSTEP_AGGREGATOR_TRACE_WRITERS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "aggregator/align/clock_model.h"
#include "aggregator/align/match.h"
#include "aggregator/store/byte_sink.h"
#include "aggregator/store/capture.h"

namespace lockstep::trace {

// One rank as Kineto's Chrome JSON, which Holistic Trace Analysis, TensorBoard's PyTorch plugin and Perfetto open unmodified.
absl::Status WriteKineto(const store::Capture& capture, uint32_t rank_index, const align::ClockModel& clock, store::ByteSink& sink);

// File name of contract.md: <host>_<rank>.<unix_ms>.pt.trace.json.gz
std::string KinetoFileName(const store::Capture& capture, uint32_t rank_index);

// All ranks on one clock, with flows that join each collective across its ranks: Perfetto's protobuf.
absl::Status WritePerfetto(const store::Capture& capture, const align::Matches& matches, const align::ClockModel& clock,
                           store::ByteSink& sink);

// What the simulated ranks replay (docs/formats/scenario.md).
absl::Status WriteScenario(const store::Capture& capture, const align::Matches& matches, const align::ClockModel& clock,
                           store::ByteSink& sink);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_WRITERS_H_
