// Who makes the samples that Control.Watch tells of.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_SAMPLE_SOURCE_H_
#define LOCKSTEP_AGGREGATOR_INGEST_SAMPLE_SOURCE_H_

#include "absl/status/status.h"
#include "aggregator/captures/callers.h"
#include "lockstep/v1/live.pb.h"

namespace lockstep::ingest {

// One who watches. Implemented by: the control service, and tests. Called by the thread that watches only.
class WatchSink {
 public:
  virtual ~WatchSink() = default;
  // False: who asked has left.
  virtual bool Write(const v1::WatchEvent& event) = 0;
  virtual bool left() const = 0;
};

// Implemented by: live::Samplers. Any thread.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  // Returns when the job has ended, the watcher left, or the aggregator ends (kUnavailable). kNotFound,
  // kPermissionDenied, kInvalidArgument: with a sentence, before the first event.
  virtual absl::Status Watch(const v1::WatchRequest& request, const Caller& caller, WatchSink& sink) = 0;
};

}  // namespace lockstep::ingest

#endif  // LOCKSTEP_AGGREGATOR_INGEST_SAMPLE_SOURCE_H_
