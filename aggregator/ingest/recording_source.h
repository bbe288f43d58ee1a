// RecordingSource makes and ends the recordings that Control.Record asks for.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_RECORDING_SOURCE_H_
#define LOCKSTEP_AGGREGATOR_INGEST_RECORDING_SOURCE_H_

#include "absl/status/statusor.h"
#include "aggregator/captures/callers.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::aggregator {

// Implemented by: GpuWindows. Any thread.
class RecordingSource {
 public:
  virtual ~RecordingSource() = default;
  // Begins, changes or ends the recording of a job, and returns it. kNotFound, kPermissionDenied,
  // kInvalidArgument, kFailedPrecondition and kResourceExhausted have a sentence for the caller.
  virtual absl::StatusOr<v1::JobRecording> Record(const v1::RecordRequest& request, const Caller& caller) = 0;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_INGEST_RECORDING_SOURCE_H_
