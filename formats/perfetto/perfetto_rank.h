// Writes the tracks of one rank in a Perfetto trace: steps, counters, threads, synchronisation, streams
// (docs/formats/perfetto.md).
#ifndef LOCKSTEP_FORMATS_PERFETTO_PERFETTO_RANK_H_
#define LOCKSTEP_FORMATS_PERFETTO_PERFETTO_RANK_H_

#include <cstdint>
#include <span>

#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "formats/perfetto/perfetto_packets.h"

namespace lockstep::formats {

// Writes a sequence of its own into `out`. `last_ranks` has, for each instance of `matches`, the rank index
// at which its flow ends; empty: the trace has no flows between ranks. PerfettoPackets::Finish() returns
// errors. One thread.
void WritePerfettoRank(const capture::Capture& capture, uint32_t rank_index, const capture::Matches& matches,
                       std::span<const uint32_t> last_ranks, const capture::ClockModel& clock,
                       PerfettoPackets& out);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_PERFETTO_PERFETTO_RANK_H_
