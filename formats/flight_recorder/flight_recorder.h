// Reads the dumps of PyTorch's Flight Recorder (TORCH_NCCL_TRACE_BUFFER_SIZE), one file per rank.
#ifndef LOCKSTEP_FORMATS_FLIGHT_RECORDER_FLIGHT_RECORDER_H_
#define LOCKSTEP_FORMATS_FLIGHT_RECORDER_FLIGHT_RECORDER_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analysis/hang/hang_state.h"

namespace lockstep::formats {

// Reads every file of the folder whose name ends in a rank's number. Ages are measured from the newest stamp
// of all files. kNotFound: the folder has none. kInvalidArgument: the file and the reason.
absl::StatusOr<analysis::HangJob> ReadFlightRecorder(const std::string& folder);

// Adds one rank's dump to the job. Its ages are stamps until AgeFromNewest.
absl::Status AddFlightRecorderDump(std::string_view bytes, RankId rank, analysis::HangJob& job);
// Replaces the stamps in `entered_ago` by ages.
void AgeFromNewest(analysis::HangJob& job);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_FLIGHT_RECORDER_FLIGHT_RECORDER_H_
