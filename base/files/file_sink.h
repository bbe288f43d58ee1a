// Sinks that write a file, plain or gzip.
#ifndef LOCKSTEP_BASE_FILES_FILE_SINK_H_
#define LOCKSTEP_BASE_FILES_FILE_SINK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/files/byte_sink.h"

namespace lockstep {

// Writes to `path`.partial and renames it in Finish(), so that the file appears complete or not at all.
// Without Finish() the partial file stays under that name. An error names the path and the system's reason.
absl::StatusOr<std::unique_ptr<ByteSink>> OpenAtomicFile(const std::string& path);

// Writes to an open file. `fd` must stay open until the sink is destroyed. `name` is for errors.
std::unique_ptr<ByteSink> FdSink(int fd, std::string name);

// Compresses its bytes into `inner` (owned). It uses level 1, because a trace is written once and read once.
std::unique_ptr<ByteSink> GzipSink(std::unique_ptr<ByteSink> inner);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FILES_FILE_SINK_H_
