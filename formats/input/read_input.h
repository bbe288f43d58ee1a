// Reads recorded traces: every input that `lockstep analyze` accepts.
#ifndef LOCKSTEP_FORMATS_INPUT_READ_INPUT_H_
#define LOCKSTEP_FORMATS_INPUT_READ_INPUT_H_

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "formats/common/read_options.h"

namespace lockstep::formats {

// Reads files and folders. They hold a Lockstep capture folder, or Kineto/PyTorch traces (.json, .json.gz),
// or the timeline of a whole job (docs/formats/timeline.md). Or they hold SQLite exports of Nsight Systems
// (docs/formats/nsys_sqlite.md), or one trace of nvprof (docs/formats/nvprof.md). The result is Finish()ed.
//
// kInvalidArgument: the input cannot be used (nothing found, two files of one rank, …); the error names file,
// place and remedy. Damaged files of a folder are left out, and `notes` names them.
absl::StatusOr<capture::Capture> ReadInput(std::span<const std::string> paths, const ReadOptions& options);

// Reads a capture folder, or its records/: the content that capture::LoadRecords reads, and the traces that
// PyTorch's profiler wrote for ranks captured through it. The result is Finish()ed, and its communicators are
// inferred.
absl::StatusOr<capture::Capture> LoadCapture(const std::string& folder, const ReadOptions& options);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_INPUT_READ_INPUT_H_
