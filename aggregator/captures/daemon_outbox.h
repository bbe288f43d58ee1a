// DaemonOutbox sends the messages of one capture, and keeps those to a daemon that is away until it is back.
//
// Thread-safe. It holds no lock while it sends.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_DAEMON_OUTBOX_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_DAEMON_OUTBOX_H_

#include <map>
#include <vector>

#include "aggregator/nodes/daemon_registry.h"
#include "base/mutex.h"
#include "lockstep/v1/ingest.pb.h"

namespace lockstep::aggregator {

class DaemonOutbox {
 public:
  // `daemons` must outlive the outbox.
  explicit DaemonOutbox(const DaemonRegistry& daemons) : daemons_(daemons) {}

  void Send(const DaemonKey& daemon, const v1::FromAggregator& message);
  void Send(const std::vector<DaemonKey>& daemons, const v1::FromAggregator& message);
  // Sends the kept messages of a daemon that has connected again.
  void Resend(const DaemonKey& daemon);

 private:
  const DaemonRegistry& daemons_;
  Mutex mutex_;
  std::map<DaemonKey, std::vector<v1::FromAggregator>> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_DAEMON_OUTBOX_H_
