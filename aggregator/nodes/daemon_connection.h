// DaemonConnection sends the messages of the hub and of capture sessions to one daemon.
#ifndef LOCKSTEP_AGGREGATOR_NODES_DAEMON_CONNECTION_H_
#define LOCKSTEP_AGGREGATOR_NODES_DAEMON_CONNECTION_H_

#include "lockstep/v1/ingest.pb.h"

namespace lockstep::aggregator {

// Implemented by: the gRPC stream (ingest_service.cc) and fakes of tests. Any thread.
class DaemonConnection {
 public:
  virtual ~DaemonConnection() = default;
  // Queues the message and returns at once. Returns false if the connection is gone; the message is then
  // lost.
  virtual bool Send(const v1::FromAggregator& message) = 0;
  // Called if another connection of the same daemon replaces this one, or the aggregator ends.
  virtual void Close() = 0;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NODES_DAEMON_CONNECTION_H_
