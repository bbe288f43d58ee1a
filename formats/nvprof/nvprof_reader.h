// Reads the trace that nvprof prints with --print-gpu-trace --csv, and its calls with --print-api-trace.
//
// docs/formats/nvprof.md describes the file; the golden file is in tests/golden/nvprof. Reading is one pass
// on the calling thread.
#ifndef LOCKSTEP_FORMATS_NVPROF_NVPROF_READER_H_
#define LOCKSTEP_FORMATS_NVPROF_NVPROF_READER_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "formats/common/byte_source.h"
#include "formats/files/trace_files.h"

namespace lockstep::formats {

// The result has one rank, with an entry per device, and is not Finish()ed. `progress`, if not empty,
// receives the number of bytes consumed. kInvalidArgument: one sentence with file, line, problem and remedy.
// A file with an error is not used at all. The one exception is an unfinished last line, which is a loss of
// stage "import".
absl::StatusOr<capture::Capture> ReadNvprof(ByteSource& source, const TraceFile& from,
                                            const std::function<void(uint64_t)>& progress);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NVPROF_NVPROF_READER_H_
