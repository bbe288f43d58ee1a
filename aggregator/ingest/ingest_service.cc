#include "aggregator/ingest/ingest_service.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "base/rpc/status.h"
#include "base/rpc/status_macros.h"

namespace lockstep::aggregator {
namespace {

// The hub's and the captures' handle of a stream. It outlives the stream; Send then returns false. Every
// operation on the stream begins here under one lock, because none may begin after Finish, and the stream is
// deleted some time later.
class Connection final : public DaemonConnection {
 public:
  Connection(AsyncStream* stream, RpcCounts& calls) : stream_(stream), calls_(calls) {}

  bool Send(const v1::FromAggregator& message) override {
    MutexLock lock(&mutex_);
    if (stream_ == nullptr) return false;
    // Acknowledgements are cumulative: the newest replaces one that still waits.
    if (message.has_ack() && !queue_.empty() && queue_.back().has_ack()) {
      queue_.back() = message;
    } else {
      queue_.push_back(message);
    }
    if (!busy_) WriteNext();
    return true;
  }

  void Close() override {
    Finish({grpc::StatusCode::UNAVAILABLE,
            "another connection has replaced this one, or the aggregator is ending"});
  }

  void Read(v1::FromDaemon* message) {
    MutexLock lock(&mutex_);
    if (stream_ != nullptr) stream_->Read(message);
  }

  void OnWritten(bool ok) {
    MutexLock lock(&mutex_);
    busy_ = false;
    if (ok && stream_ != nullptr && !queue_.empty()) WriteNext();
  }

  // Ends the stream; only the first call has an effect.
  void Finish(const grpc::Status& status) {
    MutexLock lock(&mutex_);
    if (AsyncStream* stream = std::exchange(stream_, nullptr))
      stream->Finish(calls_.Ended(RpcMethod::kStream, status));
    queue_.clear();
  }

  // Sends the only message of a refused stream and ends it.
  void SendAndFinish(const v1::FromAggregator& message) {
    MutexLock lock(&mutex_);
    if (AsyncStream* stream = std::exchange(stream_, nullptr))
      stream->WriteAndFinish(message, calls_.Ended(RpcMethod::kStream, grpc::Status::OK));
  }

 private:
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    busy_ = true;
    const v1::FromAggregator message = std::move(queue_.front());
    queue_.pop_front();
    stream_->Write(message);
  }

  Mutex mutex_;
  AsyncStream* stream_ ABSL_GUARDED_BY(mutex_);
  RpcCounts& calls_;
  std::deque<v1::FromAggregator> queue_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
};

// One stream of a daemon. The daemon is identified before its first message is read, and again with every
// message, because a certificate may be revoked while the stream lasts.
class DaemonStream final : public AsyncStream {
 public:
  DaemonStream(Hub& hub, RpcCounts& calls, AuditLog& audit, Callers& callers)
      : hub_(hub), audit_(audit), callers_(callers), connection_(std::make_shared<Connection>(this, calls)) {}

 private:
  void OnBegin(const grpc::ServerContext& context) override {
    context_ = &context;
    if (Identified()) connection_->Read(&message_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      connection_->Finish(grpc::Status::OK);
      return;
    }
    if (!Identified()) return;
    if (!registered_) {
      Register();
    } else {
      hub_.Handle(key_, connection_.get(), message_);
    }
    connection_->Read(&message_);
  }

  void OnWriteDone(bool ok) override { connection_->OnWritten(ok); }

  void OnDone() override {
    if (registered_) hub_.daemons().Disconnect(key_, connection_.get());
  }

  // Returns false if it has refused the daemon.
  bool Identified() {
    const absl::StatusOr<DaemonCaller> daemon = callers_.DaemonOf(*context_);
    if (daemon.ok()) {
      node_ = daemon->node;
    } else {
      Refuse(daemon.status());
    }
    return daemon.ok();
  }

  void Refuse(const absl::Status& why) {
    audit_.Refused("connect", CallerAt(*context_), {why.message().data(), why.message().size()});
    connection_->Finish(rpc::ToGrpc(why));
  }

  void Register() {
    if (message_.has_hello() && node_ && message_.hello().node_id() != *node_) {
      return Refuse(absl::PermissionDeniedError(
          absl::StrCat("the certificate is of node ", *node_, ", and the daemon says that it is node ",
                       message_.hello().node_id(), ": start it without --node-id")));
    }
    if (!message_.has_hello()) {
      connection_->Finish(
          {grpc::StatusCode::INVALID_ARGUMENT, "the first message must be the daemon's hello"});
      return;
    }
    key_ = {message_.hello().node_id(), message_.hello().session()};
    v1::FromAggregator refusal;
    *refusal.mutable_register_() = hub_.Connect(message_.hello(), connection_);
    registered_ = refusal.register_().refused().empty();
    if (!registered_) connection_->SendAndFinish(refusal);
  }

  Hub& hub_;
  AuditLog& audit_;
  Callers& callers_;
  const grpc::ServerContext* context_ = nullptr;  // from OnBegin on
  const std::shared_ptr<Connection> connection_;
  std::optional<std::string> node_;  // for which the daemon speaks
  v1::FromDaemon message_;
  DaemonKey key_;
  bool registered_ = false;
};

}  // namespace

void IngestService::Attach(grpc::ServerBuilder& builder) {
  threads_.Attach(builder);
  builder.RegisterService(this);
}

void IngestService::Start() {
  threads_.Start(*this, [this] { return new DaemonStream(hub_, calls_, audit_, callers_); });
}

void IngestService::Stop() { threads_.Stop(); }

grpc::Status IngestService::StreamedPing(grpc::ServerContext* context,
                                         grpc::ServerUnaryStreamer<v1::PingRequest, v1::PingReply>* call) {
  const JobTime received = clock_.Now();
  if (const auto daemon = callers_.DaemonOf(*context); !daemon.ok())
    return calls_.Ended(RpcMethod::kPing, rpc::ToGrpc(daemon.status()));
  v1::PingRequest request;
  if (!call->Read(&request))
    return calls_.Ended(RpcMethod::kPing, {grpc::StatusCode::INVALID_ARGUMENT, "the call has no request"});
  v1::PingReply reply;
  reply.set_t1_ns(request.t1_ns());
  reply.set_t2_ns(received.ns());
  reply.set_t3_ns(clock_.Now().ns());
  call->Write(reply);
  return calls_.Ended(RpcMethod::kPing, grpc::Status::OK);
}

}  // namespace lockstep::aggregator
