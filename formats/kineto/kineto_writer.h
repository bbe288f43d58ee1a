// Writes a rank as Kineto's Chrome JSON (docs/formats/kineto.md).
#ifndef LOCKSTEP_FORMATS_KINETO_KINETO_WRITER_H_
#define LOCKSTEP_FORMATS_KINETO_KINETO_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/files/byte_sink.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "formats/common/write_progress.h"

namespace lockstep::formats {

// Selects the collectives that get an annotation row like a framework's. TensorBoard's plugin compares these
// rows worker by worker.
struct KinetoOptions {
  const capture::Matches* matches =
      nullptr;                  // only collectives that all their ranks have; null: all collectives
  HostInterval annotated = {};  // only calls in this interval; empty: all calls
  WriteProgress progress = {};  // in records of the rank
};
// Writes one rank as Kineto's Chrome JSON. Holistic Trace Analysis, TensorBoard's PyTorch plugin and Perfetto
// open it unmodified. kInvalidArgument: the capture has no entry `rank_index`. Fails with the sink's error.
absl::Status WriteKineto(const capture::Capture& capture, uint32_t rank_index,
                         const capture::ClockModel& clock, ByteSink& sink, const KinetoOptions& options = {});

// Returns the file name of docs/formats/kineto.md: <host>_<rank>.<unix_ms>.pt.trace.json.gz
std::string KinetoFileName(const capture::Capture& capture, uint32_t rank_index);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_KINETO_WRITER_H_
