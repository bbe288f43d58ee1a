// SampleSource produces the samples that Control.Watch streams.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_SAMPLE_SOURCE_H_
#define LOCKSTEP_AGGREGATOR_INGEST_SAMPLE_SOURCE_H_

#include "absl/status/status.h"
#include "aggregator/captures/callers.h"
#include "lockstep/v1/live.pb.h"

namespace lockstep::aggregator {

// Receives the events of one watch. Implemented by: the control service, and tests. Called only by the thread
// in Watch.
class WatchSink {
 public:
  virtual ~WatchSink() = default;
  // Returns false if the watcher has disconnected.
  virtual bool Write(const v1::WatchEvent& event) = 0;
  virtual bool left() const = 0;
};

// Implemented by: Samplers. Any thread.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  // Returns when the job has ended, the watcher has left, or the aggregator ends (kUnavailable). Before the
  // first event it may return kNotFound, kPermissionDenied or kInvalidArgument with a sentence.
  virtual absl::Status Watch(const v1::WatchRequest& request, const Caller& caller, WatchSink& sink) = 0;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_INGEST_SAMPLE_SOURCE_H_
