// Files that appear complete or not at all, plain or gzip.
#ifndef LOCKSTEP_AGGREGATOR_STORE_FILE_SINK_H_
#define LOCKSTEP_AGGREGATOR_STORE_FILE_SINK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/files/byte_sink.h"

namespace lockstep::store {

// Writes `path`.partial and renames it in Finish(); without Finish() the partial file stays behind under that
// name. Errors name the path and what the system said.
absl::StatusOr<std::unique_ptr<ByteSink>> OpenAtomicFile(const std::string& path);

// Compresses what it is given into `inner` (owned). Level 1: traces are written once and read once.
std::unique_ptr<ByteSink> GzipSink(std::unique_ptr<ByteSink> inner);

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_FILE_SINK_H_
