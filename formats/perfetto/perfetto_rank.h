// One rank's tracks in a Perfetto trace: steps, counters, threads, synchronisation, streams
// (docs/formats/perfetto.md).
#ifndef LOCKSTEP_AGGREGATOR_TRACE_PERFETTO_RANK_H_
#define LOCKSTEP_AGGREGATOR_TRACE_PERFETTO_RANK_H_

#include <cstdint>
#include <span>

#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "formats/perfetto/perfetto_packets.h"

namespace lockstep::trace {

// A sequence of its own. `last_ranks`: by instance of `matches`, the rank index where its flow ends; empty:
// no flows between ranks. Errors show when `out` is finished. One thread.
void WritePerfettoRank(const store::Capture& capture, uint32_t rank_index, const align::Matches& matches,
                       std::span<const uint32_t> last_ranks, const align::ClockModel& clock,
                       PerfettoPackets& out);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_PERFETTO_RANK_H_
