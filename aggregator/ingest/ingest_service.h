// IngestService implements Ingest over gRPC: one stream per daemon, and the clock exchange.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_INGEST_SERVICE_H_
#define LOCKSTEP_AGGREGATOR_INGEST_INGEST_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "aggregator/ingest/hub.h"
#include "aggregator/ingest/rpc_counts.h"
#include "aggregator/nodes/clock.h"
#include "base/log/audit_log.h"
#include "base/rpc/token.h"
#include "lockstep/v1/ingest.grpc.pb.h"

namespace lockstep::aggregator {

// Called on gRPC's own threads. References must outlive the server with which it is registered.
class IngestService final : public v1::Ingest::CallbackService {
 public:
  IngestService(Hub& hub, RpcCounts& calls, AuditLog& audit, const JobClock& clock, rpc::Token token)
      : hub_(hub), calls_(calls), audit_(audit), clock_(clock), token_(std::move(token)) {}

  grpc::ServerBidiReactor<v1::FromDaemon, v1::FromAggregator>* Stream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Ping(grpc::CallbackServerContext* context, const v1::PingRequest* request,
                                 v1::PingReply* reply) override;

 private:
  Hub& hub_;
  RpcCounts& calls_;
  AuditLog& audit_;
  const JobClock& clock_;
  const rpc::Token token_;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_INGEST_INGEST_SERVICE_H_
