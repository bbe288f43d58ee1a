// ControlService implements Control over gRPC: the CLI's requests to an aggregator.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_CONTROL_SERVICE_H_
#define LOCKSTEP_AGGREGATOR_INGEST_CONTROL_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <string>

#include "aggregator/captures/callers.h"
#include "aggregator/ingest/capture_use.h"
#include "aggregator/ingest/hub.h"
#include "aggregator/ingest/rpc_counts.h"
#include "aggregator/ingest/sample_source.h"
#include "base/log/audit_log.h"
#include "lockstep/v1/control.grpc.pb.h"

namespace lockstep::aggregator {

// Each call occupies one thread of gRPC, which is acceptable because people make the calls. All references
// must outlive the server.
class ControlService final : public v1::Control::Service {
 public:
  // Adds the server's own data to a Status. Any thread.
  using Describe = std::function<void(v1::AggregatorStatus&)>;

  ControlService(Hub& hub, SampleSource& samples, RpcCounts& calls, CaptureUse& use, AuditLog& audit,
                 Callers callers, std::string version, Describe describe, Captures::After after)
      : hub_(hub),
        samples_(samples),
        calls_(calls),
        use_(use),
        audit_(audit),
        callers_(std::move(callers)),
        version_(std::move(version)),
        describe_(std::move(describe)),
        after_(std::move(after)) {}

  grpc::Status Status(grpc::ServerContext* context, const v1::StatusRequest* request,
                      v1::StatusReply* reply) override;
  grpc::Status Trace(grpc::ServerContext* context, const v1::TraceRequest* request,
                     grpc::ServerWriter<v1::TraceEvent>* writer) override;
  grpc::Status Stop(grpc::ServerContext* context, const v1::StopRequest* request,
                    v1::StopReply* reply) override;
  grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                     grpc::ServerWriter<v1::FetchChunk>* writer) override;
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::WatchEvent>* writer) override;

 private:
  // Amounts that a Fetch has sent.
  struct Sent {
    size_t files = 0;
    uint64_t bytes = 0;
  };
  // Refuses a call whose caller is not identified; audits and counts it.
  grpc::Status Refuse(const char* what, RpcMethod method, const grpc::ServerContext& context,
                      const absl::Status& why);
  // kPermissionDenied: the capture belongs to another user.
  absl::Status CheckOwner(const Caller& caller, const std::string& records, const std::string& id) const;
  absl::Status SendRecords(const Caller& caller, const std::string& id,
                           grpc::ServerWriter<v1::FetchChunk>& writer, Sent& sent) const;

  Hub& hub_;
  SampleSource& samples_;
  RpcCounts& calls_;
  CaptureUse& use_;
  AuditLog& audit_;
  const Callers callers_;
  const std::string version_;
  const Describe describe_;
  const Captures::After after_;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_INGEST_CONTROL_SERVICE_H_
