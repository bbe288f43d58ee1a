// Writes a job as Perfetto's protobuf (docs/formats/perfetto.md).
#ifndef LOCKSTEP_FORMATS_PERFETTO_PERFETTO_WRITER_H_
#define LOCKSTEP_FORMATS_PERFETTO_PERFETTO_WRITER_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/files/byte_sink.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "formats/common/write_progress.h"

namespace lockstep::formats {

// A finding of the report, which gets its own track.
struct TraceFinding {
  std::string title;   // "rank 5 · gpu_clock · 7.4 ms a step"
  JobTime start, end;  // of the steps in which it costs time
  std::vector<std::string> evidence;
};

struct PerfettoOptions {
  std::span<const TraceFinding> findings = {};
  WriteProgress progress = {};
};
// Writes all ranks on one clock. Flows join each collective across its ranks. Fails with the sink's error.
absl::Status WritePerfetto(const capture::Capture& capture, const capture::Matches& matches,
                           const capture::ClockModel& clock, ByteSink& sink,
                           const PerfettoOptions& options = {});

// Writes a TAR archive that viewers open as one trace. It holds one file per rank on its own host's clock,
// the findings, and a manifest that relates the clocks. It needs the memory of one rank's trace. Fails with
// the sink's error, or with kInvalidArgument if a file is too large for the archive.
absl::Status WritePerfettoArchive(const capture::Capture& capture, const capture::Matches& matches,
                                  const capture::ClockModel& clock, ByteSink& sink,
                                  const PerfettoOptions& options = {});

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_PERFETTO_PERFETTO_WRITER_H_
