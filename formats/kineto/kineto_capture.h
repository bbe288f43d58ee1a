// Joins the Kineto files of one job into a capture.
#ifndef LOCKSTEP_FORMATS_KINETO_KINETO_CAPTURE_H_
#define LOCKSTEP_FORMATS_KINETO_KINETO_CAPTURE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "capture/store/records.h"
#include "formats/common/read_options.h"
#include "formats/files/trace_files.h"
#include "formats/kineto/kineto_file.h"

namespace lockstep::formats {

struct JoinOptions {
  SpanChoice span;
  std::function<void(const std::string& note)> chose_span;  // may be empty
  capture::RowOverflow* overflow = nullptr;                 // receives the tables of each rank; may be null
  // Reads thin files again, in the same order.
  std::function<absl::StatusOr<std::vector<ReadFile>>(const std::vector<TraceFile>&)> read_again;
};

// Finds the rank and host of each file, and chooses a span (docs/formats/kineto.md). Leaves out files that
// cannot be used, with a note in `notes`. `files` are in natural order. The result is not Finish()ed.
// Fails with kInvalidArgument if the files are of two jobs, or two of them of one rank at the same time. It
// also fails if the span does not exist, or if no file can be used.
absl::StatusOr<capture::Capture> JoinKinetoFiles(std::vector<ReadFile> files, const JoinOptions& options);

// Adds the traces that PyTorch's profiler wrote for a live capture to the capture's records. The capture
// gives each trace's rank, and the file gives the rows. A file that cannot be used becomes a missing rank and
// a note. The result is not Finish()ed. `overflow` may be null.
void JoinRecordedTraces(std::vector<capture::RecordedTrace> traces, std::vector<ReadFile> files,
                        capture::RowOverflow* overflow, capture::Capture& capture);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_KINETO_CAPTURE_H_
