// nsys SQLite exports as `lockstep analyze` is given them.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NSYS_INPUT_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NSYS_INPUT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "aggregator/trace/readers.h"
#include "capture/model/capture.h"
#include "formats/common/byte_source.h"
#include "formats/common/trace_files.h"

namespace lockstep::trace {

struct NsysInput {
  TraceFile from;
  std::unique_ptr<ByteSource> source;  // of the database's bytes
  uint64_t bytes = 0;                  // of the file as it lies
};

// The exports of one job, or one export of ours, which is a whole capture. A compressed one is inflated into
// a file without a name in the folder for temporary files first, since a database is not read from front to
// back. kInvalidArgument as ReadInput().
absl::StatusOr<store::Capture> ReadNsysInput(std::vector<NsysInput> inputs, const ReadOptions& options);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NSYS_INPUT_H_
