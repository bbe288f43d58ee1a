// NodeClocks holds the newest clock exchanges between this aggregator and each node.
//
// Thread-safe. Its lock is held only inside its own functions.
#ifndef LOCKSTEP_AGGREGATOR_NODES_NODE_CLOCKS_H_
#define LOCKSTEP_AGGREGATOR_NODES_NODE_CLOCKS_H_

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "capture/model/capture.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"

namespace lockstep::aggregator {

class NodeClocks {
 public:
  // Ignores samples with impossible stamps, which a broken or hostile daemon may send.
  void Add(const std::string& node_id, const v1::ClockSamples& samples);
  // Returns the exchanges since `from`, oldest first.
  std::vector<capture::ClockExchange> Since(const std::string& node_id, JobTime from) const;
  // Returns the 99th percentile of the newest round trips, and at most 1 s; 0 if there was no exchange.
  Nanos RoundTripP99(const std::string& node_id) const;
  // Sets the offset of the node's clock and its bound from the exchange with the shortest round trip, if
  // there is one.
  void Describe(const std::string& node_id, v1::DaemonStatus& status) const;

 private:
  using Exchanges = std::deque<capture::ClockExchange>;

  mutable Mutex mutex_;
  std::map<std::string, Exchanges> exchanges_ ABSL_GUARDED_BY(mutex_);  // by node
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NODES_NODE_CLOCKS_H_
