// Reads nsys SQLite exports for `lockstep analyze`.
#ifndef LOCKSTEP_FORMATS_NSYS_NSYS_INPUT_H_
#define LOCKSTEP_FORMATS_NSYS_NSYS_INPUT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "formats/common/byte_source.h"
#include "formats/common/read_options.h"
#include "formats/files/trace_files.h"

namespace lockstep::formats {

struct NsysInput {
  TraceFile from;
  std::unique_ptr<ByteSource> source;  // of the database's bytes
  uint64_t bytes = 0;                  // size of the file, not inflated
};

// Reads the exports of one job. A compressed export is first inflated into an unnamed file in the temporary
// folder, because a database is not read from front to back. Fails with kInvalidArgument, as ReadInput().
absl::StatusOr<capture::Capture> ReadNsysInput(std::vector<NsysInput> inputs, const ReadOptions& options);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NSYS_NSYS_INPUT_H_
