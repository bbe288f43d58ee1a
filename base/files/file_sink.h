// Sinks that write a file, plain or gzip. The file appears complete or not at all.
#ifndef LOCKSTEP_BASE_FILES_FILE_SINK_H_
#define LOCKSTEP_BASE_FILES_FILE_SINK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/files/byte_sink.h"

namespace lockstep {

// Writes to `path`.partial and renames it in Finish(). Without Finish() the partial file stays under that
// name. An error names the path and the system's reason.
absl::StatusOr<std::unique_ptr<ByteSink>> OpenAtomicFile(const std::string& path);

// Compresses its bytes into `inner` (owned). It uses level 1, because a trace is written once and read once.
std::unique_ptr<ByteSink> GzipSink(std::unique_ptr<ByteSink> inner);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FILES_FILE_SINK_H_
