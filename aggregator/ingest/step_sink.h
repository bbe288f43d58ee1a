// StepSink receives the training steps of running jobs.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_STEP_SINK_H_
#define LOCKSTEP_AGGREGATOR_INGEST_STEP_SINK_H_

#include "aggregator/nodes/seen_rank.h"
#include "lockstep/v1/ingest.pb.h"

namespace lockstep::aggregator {

// Implemented by: Slowdowns, and tests. Any thread; must not block.
class StepSink {
 public:
  virtual ~StepSink() = default;
  // `steps` is as the daemon sent it, and may name processes that are not its own.
  virtual void OnSteps(const DaemonKey& daemon, const v1::StepUpdate& steps) = 0;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_INGEST_STEP_SINK_H_
