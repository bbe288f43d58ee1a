// IngestService implements Ingest over gRPC: one stream per daemon, and the clock exchange.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_INGEST_SERVICE_H_
#define LOCKSTEP_AGGREGATOR_INGEST_INGEST_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <utility>

#include "aggregator/captures/callers.h"
#include "aggregator/ingest/async_stream.h"
#include "aggregator/ingest/hub.h"
#include "aggregator/ingest/rpc_counts.h"
#include "aggregator/nodes/clock.h"
#include "base/log/audit_log.h"
#include "lockstep/v1/ingest.grpc.pb.h"

namespace lockstep::aggregator {

// References must outlive the server with which it is registered.
//
// Both methods check the caller before they read a message. Ping is therefore declared as a stream of one
// message, which a client cannot distinguish.
class IngestService final : public StreamThreads::Service {
 public:
  IngestService(Hub& hub, RpcCounts& calls, AuditLog& audit, const JobClock& clock, Callers& callers)
      : hub_(hub), calls_(calls), audit_(audit), clock_(clock), callers_(callers) {}

  // One thread calls these once each, in this order: Attach before the server starts, Start after it, and
  // Stop after it was shut down.
  void Attach(grpc::ServerBuilder& builder);
  void Start();
  void Stop();

  // As StreamThreads::Every.
  void Every(Nanos period, std::function<void()> call) { threads_.Every(period, std::move(call)); }

  grpc::Status StreamedPing(grpc::ServerContext* context,
                            grpc::ServerUnaryStreamer<v1::PingRequest, v1::PingReply>* call) override;

 private:
  Hub& hub_;
  RpcCounts& calls_;
  AuditLog& audit_;
  const JobClock& clock_;
  Callers& callers_;
  StreamThreads threads_;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_INGEST_INGEST_SERVICE_H_
