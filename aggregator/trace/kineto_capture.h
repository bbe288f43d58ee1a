// Kineto files of one job joined into a capture.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_KINETO_CAPTURE_H_
#define LOCKSTEP_AGGREGATOR_TRACE_KINETO_CAPTURE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "aggregator/store/capture.h"
#include "aggregator/trace/kineto_file.h"
#include "aggregator/trace/trace_files.h"

namespace lockstep::trace {

struct ReadFile {
  TraceFile from;
  KinetoFile content;
};

// Names ranks and hosts (docs/formats/kineto.md), leaves out what cannot be used and says so in `notes`.
// `files` are in natural order. kInvalidArgument: two files of one rank, or nothing left to analyse. Not
// Finish()ed.
absl::StatusOr<store::Capture> JoinKinetoFiles(std::vector<ReadFile> files);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_KINETO_CAPTURE_H_
