// DurableAcks acknowledges the daemons' messages once they are on disk.
//
// Its thread syncs everything that was stored and then acknowledges it, so that one sync serves all messages
// that arrived during the sync before. Thread-safe.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_DURABLE_ACKS_H_
#define LOCKSTEP_AGGREGATOR_INGEST_DURABLE_ACKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <thread>

#include "aggregator/nodes/daemon_registry.h"
#include "aggregator/nodes/seen_rank.h"
#include "base/mutex.h"

namespace lockstep::aggregator {

class DurableAcks {
 public:
  // `sync` returns when everything that was stored before is on disk, or known to be lost. `daemons` and the
  // objects that `sync` uses outlive this.
  DurableAcks(DaemonRegistry& daemons, std::function<void()> sync);
  ~DurableAcks() { Stop(); }
  DurableAcks(const DurableAcks&) = delete;
  DurableAcks& operator=(const DurableAcks&) = delete;

  // Everything of the daemon up to this number was stored.
  void Add(const DaemonKey& daemon, uint64_t through);
  // Acknowledges what was added and ends the thread. Later additions are not acknowledged.
  void Stop();

 private:
  void Run();

  DaemonRegistry& daemons_;
  const std::function<void()> sync_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<DaemonKey, uint64_t> stored_ ABSL_GUARDED_BY(mutex_);  // since the last sync began
  std::thread thread_;                                            // thread: owner
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_INGEST_DURABLE_ACKS_H_
