// Hub holds the aggregator's daemons, clocks and captures, and routes the daemons' messages among them.
//
// The gRPC services only forward to this class, which does not use gRPC. Thread-safe; the messages of one
// daemon must arrive one at a time. Lock order: a DaemonSequence, a CaptureSession, its CaptureData. Each
// other lock is held only inside its own class.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_HUB_H_
#define LOCKSTEP_AGGREGATOR_INGEST_HUB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "aggregator/captures/callers.h"
#include "aggregator/captures/capture_session.h"
#include "aggregator/captures/captures.h"
#include "aggregator/ingest/durable_acks.h"
#include "aggregator/ingest/step_sink.h"
#include "aggregator/nodes/clock.h"
#include "aggregator/nodes/daemon_connection.h"
#include "aggregator/nodes/daemon_registry.h"
#include "aggregator/nodes/node_clocks.h"
#include "aggregator/nodes/progress_requests.h"
#include "base/log/log.h"
#include "base/mutex.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"

namespace lockstep::aggregator {

struct HubOptions {
  CapturesOptions captures;
  uint32_t credits = 16;  // number of unacknowledged batches that a daemon may send
};

// Totals of the daemons' numbered messages since the hub was created.
struct MessageCounts {
  // Stored messages, and their content.
  uint64_t batches = 0;
  uint64_t gaps = 0;
  uint64_t ends = 0;
  uint64_t trace_pieces = 0;
  uint64_t records = 0;
  uint64_t record_bytes = 0;
  uint64_t trace_bytes = 0;
  // Messages that were not stored.
  uint64_t duplicates = 0;  // stored before and sent again
  uint64_t discarded = 0;   // without a running capture
  uint64_t missing = 0;     // never arrived and not explained by a gap
};

class Hub {
 public:
  // `clock` must outlive the hub.
  Hub(const HubOptions& options, const JobClock& clock);
  ~Hub();

  // Resumes the captures of an earlier process from their journals, and runs `after` each. Call it once,
  // before the first call.
  void Resume(const Captures::After& after);

  // From now on each daemon that connects is asked for the steps of its ranks, which go to `sink`. Call it
  // before the first Connect. `sink` must be usable as long as daemons send messages.
  void FollowSteps(StepSink& sink) { steps_ = &sink; }

  // The calls of a daemon's stream, in this order; the last one is DaemonRegistry::Disconnect. Connect does
  // what the registry's Connect does, and sends the captures' messages that waited for the daemon.
  v1::Register Connect(const v1::DaemonHello& hello, std::shared_ptr<DaemonConnection> connection);
  // A numbered message is acknowledged once it is on disk.
  void Handle(const DaemonKey& daemon, const DaemonConnection* connection, const v1::FromDaemon& message);

  // Returns the ranks and captures that the caller may use.
  v1::StatusReply Status(const std::string& job, const Caller& caller) const;
  // Asks the daemons for the progress of the ranks that the caller may see. It waits for them, but not longer
  // than `at_most`.
  v1::ProgressReply Progress(const v1::ProgressRequest& request, const Caller& caller, Nanos at_most);
  // Ends running captures and closes all connections. Later requests are refused.
  void Shutdown();

  DaemonRegistry& daemons() { return daemons_; }
  const DaemonRegistry& daemons() const { return daemons_; }
  Captures& captures() { return captures_; }
  const Captures& captures() const { return captures_; }
  MessageCounts counts() const;

 private:
  absl::Status Resume(const std::string& id, const std::string& folder);
  // Stores a numbered message once, and counts it in every case.
  void HandleData(const DaemonKey& key, const v1::FromDaemon& message);
  void Sequenced(const DaemonKey& key, uint64_t first, uint64_t last, const std::string& capture,
                 const std::function<void(CaptureSession&)>& store);
  // Returns the newest number that is stored.
  uint64_t StoreSequenced(const DaemonKey& key, uint64_t first, uint64_t last, const std::string& capture,
                          const std::function<void(CaptureSession&)>& store);
  void Count(const std::function<void(MessageCounts&)>& add);

  const LogSink log_;
  StepSink* steps_ = nullptr;  // thread: owner, before the first Connect
  // thread-safe
  DaemonRegistry daemons_;
  ProgressRequests progress_{daemons_};
  NodeClocks clocks_;
  Captures captures_;
  DurableAcks acks_;

  mutable Mutex mutex_;
  MessageCounts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_INGEST_HUB_H_
