// Control over gRPC: what the CLI asks an aggregator.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_CONTROL_SERVICE_H_
#define LOCKSTEP_AGGREGATOR_INGEST_CONTROL_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "aggregator/ingest/callers.h"
#include "aggregator/ingest/hub.h"
#include "aggregator/ingest/rpc_counts.h"
#include "lockstep/v1/control.grpc.pb.h"

namespace lockstep::ingest {

// One thread of gRPC's per call: callers are people. `hub` and `calls` must outlive the server.
class ControlService final : public v1::Control::Service {
 public:
  ControlService(Hub& hub, RpcCounts& calls, Callers callers, std::string version, Hub::After after)
      : hub_(hub), calls_(calls), callers_(std::move(callers)), version_(std::move(version)), after_(std::move(after)) {}

  grpc::Status Status(grpc::ServerContext* context, const v1::StatusRequest* request,
                      v1::StatusReply* reply) override;
  grpc::Status Trace(grpc::ServerContext* context, const v1::TraceRequest* request,
                     grpc::ServerWriter<v1::TraceEvent>* writer) override;
  grpc::Status Stop(grpc::ServerContext* context, const v1::StopRequest* request,
                    v1::StopReply* reply) override;
  grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                     grpc::ServerWriter<v1::FetchChunk>* writer) override;

 private:
  // kPermissionDenied where it is another user's.
  absl::Status CheckOwner(const Caller& caller, const std::string& records, const std::string& id) const;
  grpc::Status SendRecords(const Caller& caller, const std::string& id, grpc::ServerWriter<v1::FetchChunk>& writer) const;

  Hub& hub_;
  RpcCounts& calls_;
  const Callers callers_;
  const std::string version_;
  const Hub::After after_;
};

}  // namespace lockstep::ingest

#endif  // LOCKSTEP_AGGREGATOR_INGEST_CONTROL_SERVICE_H_
