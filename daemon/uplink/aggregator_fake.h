// An aggregator for tests. It stores the daemons' data, acknowledges or withholds, breaks or stalls streams,
// and sends requests.
#ifndef LOCKSTEP_DAEMON_UPLINK_AGGREGATOR_FAKE_H_
#define LOCKSTEP_DAEMON_UPLINK_AGGREGATOR_FAKE_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/read_clock.h"
#include "base/rpc/address.h"
#include "base/rpc/connection_gate.h"
#include "base/rpc/security.h"
#include "base/rpc/server.h"
#include "base/rpc/status.h"
#include "base/rpc/token.h"
#include "base/time.h"
#include "lockstep/v1/ingest.grpc.pb.h"
#include "wire/columns/columns.h"

namespace lockstep::daemon {

class FakeAggregator final : private v1::Ingest::Service {
 public:
  struct Options {
    std::string address;  // unix:… or HOST:0
    rpc::Token token;
    uint32_t credits = 16;
    std::string refuse;
    Nanos clock_ahead;  // ahead of the host's clock
  };

  explicit FakeAggregator(Options options) : options_(std::move(options)) {
    grpc::ServerBuilder builder;
    rpc::Configure(builder, {});
    const rpc::Address address = *rpc::Address::Parse(options_.address);
    if (!address.is_unix())
      security_ =
          *rpc::Security::ForServer({.token = options_.token}, std::make_shared<SystemClock>(), &LogNothing);
    gate_.Attach(builder, security_.get());
    const absl::StatusOr<int> port = gate_.Listen(address);
    if (!port.ok()) throw std::runtime_error(std::string(port.status().message()));
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (!gate_.Start().ok()) throw std::runtime_error("no descriptor for the gate");
    address_ = address.is_unix() ? options_.address : address.host() + ":" + std::to_string(*port);
  }
  ~FakeAggregator() override {
    SetReading(Reading::kOn);
    gate_.Stop();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  }

  const std::string& address() const { return address_; }

  // ---- Control of its behaviour
  enum class Acks { kOn, kOff };
  void SetAcks(Acks acks) {
    MutexLock lock(&mutex_);
    acks_ = acks;
    if (acks == Acks::kOn) AcknowledgeLocked();
  }
  enum class Reading { kOn, kOff };
  void SetReading(Reading reading) {
    MutexLock lock(&mutex_);
    reading_ = reading;
    changed_.SignalAll();
  }
  void BreakStream() {
    MutexLock lock(&mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
  bool Send(const v1::FromAggregator& message) {
    MutexLock lock(&mutex_);
    return stream_ != nullptr && stream_->Write(message);
  }
  void Arm(const std::string& capture, const std::vector<v1::Rank>& ranks,
           Nanos timeout = Nanos::Seconds(10)) {
    v1::FromAggregator message;
    message.mutable_arm()->set_capture(capture);
    for (const v1::Rank& rank : ranks) *message.mutable_arm()->add_processes() = rank.process();
    message.mutable_arm()->set_timeout_ns(timeout.ns());
    Send(message);
  }
  void Start(const std::string& capture, Nanos from_now, Nanos length) {
    v1::FromAggregator message;
    message.mutable_start()->set_capture(capture);
    message.mutable_start()->set_t0_ns(Now() + from_now.ns());
    message.mutable_start()->set_t1_ns(Now() + (from_now + length).ns());
    Send(message);
  }
  enum class StopMode { kKeep, kAbort };
  void Stop(const std::string& capture, StopMode mode) {
    v1::FromAggregator message;
    message.mutable_stop()->set_capture(capture);
    message.mutable_stop()->set_abort(mode == StopMode::kAbort);
    Send(message);
  }

  // ---- Received data
  struct Seen {
    int streams = 0;
    int duplicates = 0;
    int holes = 0;
    uint64_t stored_through = 0;
    std::vector<v1::Rank> ranks;
    int rank_updates = 0;
    // All states of each process in order, by capture, then pid.
    std::map<std::string, std::map<int32_t, std::vector<v1::RankState>>> states;
    std::vector<v1::Batch> batches;
    std::vector<v1::Gap> gaps;
    std::vector<v1::CaptureEnd> ends;
    std::vector<v1::ClockSample> samples;
    std::vector<v1::StepRow> steps;  // of all processes

    v1::RankState LastState(const std::string& capture, int32_t pid) const {
      const auto c = states.find(capture);
      if (c == states.end() || !c->second.count(pid)) return {};
      return c->second.at(pid).back();
    }
    // Number of rows of this kind in the batches of process `pid`; 0: of all processes.
    uint64_t Rows(columns::Kind kind, int32_t pid = 0) const {
      uint64_t rows = 0;
      for (const v1::Batch& batch : batches) {
        if (pid != 0 && batch.process().pid() != pid) continue;
        std::span<const std::byte> rest = std::as_bytes(std::span(batch.blocks()));
        columns::DecodedBlock block;
        while (!rest.empty()) {
          const auto taken = columns::Decode(rest, block);
          if (!taken.ok()) return ~uint64_t{0};
          if (block.kind == kind) rows += block.rows;
          rest = rest.subspan(*taken);
        }
      }
      return rows;
    }
    uint64_t Lost(columns::Kind kind, const std::string& stage, int32_t pid = 0) const {
      uint64_t lost = 0;
      const auto add = [&](const auto& message) {
        if (pid != 0 && message.process().pid() != pid) return;
        for (const v1::Loss& loss : message.losses()) {
          if (loss.kind() == static_cast<uint32_t>(kind) && (stage.empty() || loss.stage() == stage))
            lost += loss.records();
        }
      };
      for (const auto& gap : gaps) add(gap);
      for (const auto& end : ends) add(end);
      return lost;
    }
  };
  Seen seen() {
    MutexLock lock(&mutex_);
    return seen_;
  }
  // Returns false if the condition did not become true in time.
  bool WaitFor(const std::function<bool(const Seen&)>& condition, Nanos wait = Nanos::Seconds(20)) {
    MutexLock lock(&mutex_);
    return changed_.WaitFor(&mutex_, wait,
                            [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return condition(seen_); });
  }

 private:
  using Stream_ = grpc::ServerReaderWriter<v1::FromAggregator, v1::FromDaemon>;

  int64_t Now() const { return ReadClockNs(CLOCK_REALTIME) + options_.clock_ahead.ns(); }

  grpc::Status Ping(grpc::ServerContext* context, const v1::PingRequest* request,
                    v1::PingReply* reply) override {
    if (const absl::Status allowed = options_.token.Check(*context); !allowed.ok())
      return rpc::ToGrpc(allowed);
    reply->set_t1_ns(request->t1_ns());
    reply->set_t2_ns(Now());
    reply->set_t3_ns(Now());
    return grpc::Status::OK;
  }

  grpc::Status Stream(grpc::ServerContext* context, Stream_* stream) override {
    if (const absl::Status allowed = options_.token.Check(*context); !allowed.ok())
      return rpc::ToGrpc(allowed);
    v1::FromDaemon message;
    if (!stream->Read(&message) || !message.has_hello()) return grpc::Status::OK;
    {
      MutexLock lock(&mutex_);
      ++seen_.streams;
      if (session_ != message.hello().session()) seen_.stored_through = 0;
      session_ = message.hello().session();
      v1::FromAggregator answer;
      answer.mutable_register_()->set_refused(options_.refuse);
      answer.mutable_register_()->set_acked_sequence(seen_.stored_through);
      answer.mutable_register_()->set_credits(options_.credits);
      stream->Write(answer);
      stream_ = stream;
      context_ = context;
      changed_.SignalAll();
    }
    while (true) {
      {
        MutexLock lock(&mutex_);
        changed_.Wait(&mutex_, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return reading_ == Reading::kOn || context->IsCancelled();
        });
      }
      if (!stream->Read(&message)) break;
      MutexLock lock(&mutex_);
      OnMessage(message);
      changed_.SignalAll();
    }
    MutexLock lock(&mutex_);
    if (stream_ == stream) {
      stream_ = nullptr;
      context_ = nullptr;
    }
    return grpc::Status::OK;
  }

  void OnMessage(const v1::FromDaemon& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    switch (message.message_case()) {
      case v1::FromDaemon::kRanks:
        seen_.ranks.assign(message.ranks().ranks().begin(), message.ranks().ranks().end());
        ++seen_.rank_updates;
        break;
      case v1::FromDaemon::kStates:
        for (const v1::RankState& state : message.states().states()) {
          seen_.states[message.states().capture()][state.process().pid()].push_back(state);
        }
        break;
      case v1::FromDaemon::kClock:
        seen_.samples.insert(seen_.samples.end(), message.clock().samples().begin(),
                             message.clock().samples().end());
        break;
      case v1::FromDaemon::kSteps:
        for (const v1::ProcessSteps& process : message.steps().processes())
          seen_.steps.insert(seen_.steps.end(), process.steps().begin(), process.steps().end());
        break;
      case v1::FromDaemon::kBatch:
        if (Take(message.batch().sequence(), message.batch().sequence()))
          seen_.batches.push_back(message.batch());
        break;
      case v1::FromDaemon::kGap:
        if (Take(message.gap().first_sequence(), message.gap().last_sequence()))
          seen_.gaps.push_back(message.gap());
        break;
      case v1::FromDaemon::kEnd:
        if (Take(message.end().sequence(), message.end().sequence())) seen_.ends.push_back(message.end());
        break;
      default:
        break;
    }
  }

  bool Take(uint64_t first, uint64_t last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool duplicate = last <= seen_.stored_through;
    if (duplicate) ++seen_.duplicates;
    if (first > seen_.stored_through + 1) ++seen_.holes;
    if (!duplicate) seen_.stored_through = last;
    if (acks_ == Acks::kOn) AcknowledgeLocked();
    return !duplicate;
  }

  void AcknowledgeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (stream_ == nullptr) return;
    v1::FromAggregator message;
    message.mutable_ack()->set_through(seen_.stored_through);
    message.mutable_ack()->set_credits(options_.credits);
    stream_->Write(message);
  }

  const Options options_;
  std::string address_;
  Mutex mutex_;
  CondVar changed_;
  Acks acks_ ABSL_GUARDED_BY(mutex_) = Acks::kOn;
  Reading reading_ ABSL_GUARDED_BY(mutex_) = Reading::kOn;
  Stream_* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  grpc::ServerContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  uint64_t session_ ABSL_GUARDED_BY(mutex_) = 0;
  Seen seen_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<rpc::Security> security_;  // null: a Unix socket
  rpc::ConnectionGate gate_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_UPLINK_AGGREGATOR_FAKE_H_
