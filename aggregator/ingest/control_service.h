// ControlService implements Control over gRPC: the CLI's requests to an aggregator.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_CONTROL_SERVICE_H_
#define LOCKSTEP_AGGREGATOR_INGEST_CONTROL_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "aggregator/captures/call_slots.h"
#include "aggregator/captures/callers.h"
#include "aggregator/ingest/capture_use.h"
#include "aggregator/ingest/hub.h"
#include "aggregator/ingest/recording_source.h"
#include "aggregator/ingest/rpc_counts.h"
#include "aggregator/ingest/sample_source.h"
#include "base/log/audit_log.h"
#include "lockstep/v1/control.grpc.pb.h"

namespace lockstep::aggregator {

// Each call occupies one thread of gRPC, which is acceptable because people make the calls. Each identifies
// its caller before it reads the request, so that a stranger cannot fill memory. All references must outlive
// the server.
class ControlService final : public v1::Control::StreamedService {
 public:
  // Both are called on any thread.
  struct Facts {
    // Adds the server's own data.
    std::function<void(v1::AggregatorStatus&)> describe = [](v1::AggregatorStatus&) {};
    // Adds what was noticed of `job`, or of all jobs if it is empty, and the caller may see.
    std::function<void(const Caller&, const std::string& job, v1::StatusReply&)> add_noticed =
        [](const Caller&, const std::string&, v1::StatusReply&) {};
  };

  ControlService(Hub& hub, SampleSource& samples, RecordingSource& recordings, RpcCounts& calls,
                 CaptureUse& use, AuditLog& audit, Callers& callers, std::string version, Facts facts,
                 Captures::After after)
      : hub_(hub),
        samples_(samples),
        recordings_(recordings),
        calls_(calls),
        use_(use),
        audit_(audit),
        callers_(callers),
        version_(std::move(version)),
        facts_(std::move(facts)),
        after_(std::move(after)) {}

  grpc::Status StreamedStatus(grpc::ServerContext* context,
                              grpc::ServerUnaryStreamer<v1::StatusRequest, v1::StatusReply>* call) override;
  grpc::Status StreamedTrace(grpc::ServerContext* context,
                             grpc::ServerSplitStreamer<v1::TraceRequest, v1::TraceEvent>* call) override;
  grpc::Status StreamedStop(grpc::ServerContext* context,
                            grpc::ServerUnaryStreamer<v1::StopRequest, v1::StopReply>* call) override;
  grpc::Status StreamedFetch(grpc::ServerContext* context,
                             grpc::ServerSplitStreamer<v1::FetchRequest, v1::FetchChunk>* call) override;
  grpc::Status StreamedWatch(grpc::ServerContext* context,
                             grpc::ServerSplitStreamer<v1::WatchRequest, v1::WatchEvent>* call) override;
  grpc::Status StreamedProgress(
      grpc::ServerContext* context,
      grpc::ServerSplitStreamer<v1::ProgressRequest, v1::ProgressReply>* call) override;
  grpc::Status StreamedRecord(grpc::ServerContext* context,
                              grpc::ServerUnaryStreamer<v1::RecordRequest, v1::RecordReply>* call) override;

 private:
  static constexpr size_t kMostCallsOfOneUser = 16;

  // An identified caller and its place among the calls that run.
  struct Admitted {
    Caller caller;
    std::unique_ptr<CallSlots::Hold> hold;
  };
  absl::StatusOr<Admitted> Admit(const grpc::ServerContext& context);
  // Amounts that a Fetch has sent.
  struct Sent {
    size_t files = 0;
    uint64_t bytes = 0;
  };
  // Refuses a call that was not admitted; audits and counts it.
  grpc::Status Refuse(const char* what, RpcMethod method, const grpc::ServerContext& context,
                      const absl::Status& why);
  // Serves a Trace that follows a capture.
  grpc::Status Follow(const grpc::ServerContext& context, const std::string& capture, const Caller& caller,
                      grpc::internal::WriterInterface<v1::TraceEvent>& events);
  // kPermissionDenied: the capture belongs to another user.
  absl::Status CheckOwner(const Caller& caller, const std::string& records, const std::string& id) const;
  absl::Status SendRecords(const Caller& caller, const std::string& id,
                           grpc::internal::WriterInterface<v1::FetchChunk>& writer, Sent& sent) const;

  Hub& hub_;
  SampleSource& samples_;
  RecordingSource& recordings_;
  RpcCounts& calls_;
  CaptureUse& use_;
  AuditLog& audit_;
  Callers& callers_;
  CallSlots slots_{kMostCallsOfOneUser};
  const std::string version_;
  const Facts facts_;
  const Captures::After after_;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_INGEST_CONTROL_SERVICE_H_
