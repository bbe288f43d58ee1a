// The way down to one daemon, as the hub and capture sessions use it.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_DAEMON_CONNECTION_H_
#define LOCKSTEP_AGGREGATOR_INGEST_DAEMON_CONNECTION_H_

#include "lockstep/v1/ingest.pb.h"

namespace lockstep::ingest {

// Implemented by: the gRPC stream (ingest_service.cc) and the tests' own. Any thread.
class DaemonConnection {
 public:
  virtual ~DaemonConnection() = default;
  // Queues the message and returns at once; false when the connection is gone, and the message with it.
  virtual bool Send(const v1::FromAggregator& message) = 0;
  // Another connection of the same daemon has taken over, or the aggregator ends.
  virtual void Close() = 0;
};

}  // namespace lockstep::ingest

#endif  // LOCKSTEP_AGGREGATOR_INGEST_DAEMON_CONNECTION_H_
