// Kineto files of one job joined into a capture.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_KINETO_CAPTURE_H_
#define LOCKSTEP_AGGREGATOR_TRACE_KINETO_CAPTURE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "capture/store/records.h"
#include "formats/common/trace_files.h"
#include "formats/kineto/kineto_file.h"

namespace lockstep::trace {

struct ReadFile {
  TraceFile from;
  KinetoFile content;
};

// Names ranks and hosts (docs/formats/kineto.md), leaves out what cannot be used and says so in `notes`.
// `files` are in natural order. kInvalidArgument: two files of one rank, or nothing left to analyse. Not
// Finish()ed.
absl::StatusOr<store::Capture> JoinKinetoFiles(std::vector<ReadFile> files);

// Adds the traces that PyTorch's profiler wrote for a live capture to what its records hold. Who each is, is
// known; the file has the rows. What cannot be used becomes a missing rank and a note. Not Finish()ed.
void JoinRecordedTraces(std::vector<store::RecordedTrace> traces, std::vector<ReadFile> files,
                        store::Capture& capture);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_KINETO_CAPTURE_H_
