#include "sim/fleet/bare_server.h"

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/json/json_out.h"
#include "base/mutex.h"
#include "base/read_clock.h"
#include "base/rpc/address.h"
#include "base/rpc/channel.h"
#include "base/rpc/status_macros.h"
#include "lockstep/v1/ingest.grpc.pb.h"

namespace lockstep::sim {
namespace {

constexpr Nanos kAskStopEvery = Nanos::Millis(100);
// Between rounds, so that no round waits for the one before.
constexpr Nanos kRoundPause = Nanos::Millis(20);

class BareStream;

// Counts the answers of one round.
class BareRounds {
 public:
  explicit BareRounds(uint32_t daemons) : daemons_(daemons) {}
  void Join(BareStream* stream, v1::ProcessKey process);
  void Leave();
  void OnArmed();
  bool WaitForAll(const std::function<bool()>& stop);
  // Returns the time from the first write to the last answer; nothing if a stream left, or at `stop`.
  absl::StatusOr<Nanos> Round(uint32_t number, const std::function<bool()>& stop);

 private:
  const uint32_t daemons_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::pair<BareStream*, v1::ProcessKey>> streams_ ABSL_GUARDED_BY(mutex_);
  uint32_t armed_ ABSL_GUARDED_BY(mutex_) = 0;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
};

// One daemon's stream. Its BareIngest owns it.
class BareStream final : public grpc::ServerBidiReactor<v1::FromDaemon, v1::FromAggregator> {
 public:
  explicit BareStream(BareRounds& rounds) : rounds_(rounds) { StartRead(&incoming_); }

  void Send(v1::FromAggregator message) {
    MutexLock lock(&mutex_);
    if (over_) return;
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
  }
  void OnReadDone(bool ok) override {
    if (!ok) return End();
    if (incoming_.has_hello()) {
      v1::FromAggregator reply;
      reply.mutable_register_()->set_credits(1);
      Send(std::move(reply));
    } else if (incoming_.has_ranks()) {
      rounds_.Join(this, incoming_.ranks().ranks(0).process());
    } else if (incoming_.has_states()) {
      rounds_.OnArmed();
    }
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    outgoing_.pop_front();
    if (ok && !outgoing_.empty()) StartWrite(&outgoing_.front());
  }
  void OnDone() override { rounds_.Leave(); }

 private:
  void End() {
    {
      MutexLock lock(&mutex_);
      over_ = true;
    }
    Finish(grpc::Status::OK);
  }

  BareRounds& rounds_;       // thread-safe
  v1::FromDaemon incoming_;  // thread: the stream's reads
  Mutex mutex_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<v1::FromAggregator> outgoing_ ABSL_GUARDED_BY(mutex_);
};

class BareIngest final : public v1::Ingest::CallbackService {
 public:
  explicit BareIngest(BareRounds& rounds) : rounds_(rounds) {}
  grpc::ServerBidiReactor<v1::FromDaemon, v1::FromAggregator>* Stream(grpc::CallbackServerContext*) override {
    MutexLock lock(&mutex_);
    return streams_.emplace_back(std::make_unique<BareStream>(rounds_)).get();
  }
  grpc::ServerUnaryReactor* Ping(grpc::CallbackServerContext* context, const v1::PingRequest* request,
                                 v1::PingReply* reply) override {
    reply->set_t1_ns(request->t1_ns());
    reply->set_t2_ns(ReadRealtime().ns());
    reply->set_t3_ns(ReadRealtime().ns());
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  BareRounds& rounds_;  // thread-safe
  Mutex mutex_;
  std::vector<std::unique_ptr<BareStream>> streams_ ABSL_GUARDED_BY(mutex_);  // until the server has ended
};

void BareRounds::Join(BareStream* stream, v1::ProcessKey process) {
  MutexLock lock(&mutex_);
  streams_.emplace_back(stream, std::move(process));
  changed_.SignalAll();
}

void BareRounds::Leave() {
  MutexLock lock(&mutex_);
  left_ = true;
  changed_.SignalAll();
}

void BareRounds::OnArmed() {
  MutexLock lock(&mutex_);
  if (++armed_ == daemons_) changed_.SignalAll();
}

bool BareRounds::WaitForAll(const std::function<bool()>& stop) {
  MutexLock lock(&mutex_);
  while (streams_.size() < daemons_ && !stop()) changed_.WaitFor(&mutex_, kAskStopEvery);
  return streams_.size() >= daemons_;
}

absl::StatusOr<Nanos> BareRounds::Round(uint32_t number, const std::function<bool()>& stop) {
  const MonoTime begun = ReadMonotonic();
  const std::string capture = absl::StrCat("bare-", number);
  v1::FromAggregator end;
  end.mutable_stop()->set_capture(capture);
  end.mutable_stop()->set_abort(true);
  MutexLock lock(&mutex_);
  armed_ = 0;
  for (const auto& [stream, process] : streams_) {
    v1::FromAggregator arm;
    arm.mutable_arm()->set_capture(capture);
    *arm.mutable_arm()->add_processes() = process;
    stream->Send(std::move(arm));
  }
  while (armed_ < daemons_ && !left_ && !stop()) changed_.WaitFor(&mutex_, kAskStopEvery);
  const Nanos took = ReadMonotonic() - begun;
  if (armed_ < daemons_) return absl::CancelledError("a daemon left before all rounds were over");
  for (const auto& [stream, process] : streams_) stream->Send(end);
  changed_.WaitFor(&mutex_, kRoundPause, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return left_; });
  return took;
}

std::string RoundsLine(uint32_t daemons, const std::vector<Nanos>& rounds) {
  JsonOut out(JsonOut::Layout::kOneLine);
  out.BeginObject();
  out.Member("event", "bare_rounds");
  out.Member("daemons", daemons);
  out.Member("rounds_ns", rounds);
  out.EndObject();
  return out.Take();
}

}  // namespace

absl::Status RunBareServer(const FleetOptions& options, const std::function<void(const std::string&)>& print,
                           const std::function<bool()>& stop) {
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Address address, rpc::Address::Parse(options.aggregator));
  BareRounds rounds(options.daemons);
  BareIngest service(rounds);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address.target(), grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr)
    return absl::UnavailableError(
        absl::StrCat("cannot listen at ", options.aggregator, ": does its folder exist?"));
  std::vector<Nanos> times;
  absl::Status status;
  if (rounds.WaitForAll(stop)) {
    for (uint32_t i = 0; i < options.bare_rounds && status.ok(); ++i) {
      const absl::StatusOr<Nanos> took = rounds.Round(i, stop);
      if (took.ok()) times.push_back(*took);
      status = took.status();
    }
  }
  print(RoundsLine(options.daemons, times));
  server->Shutdown(std::chrono::system_clock::now());
  return status;
}

}  // namespace lockstep::sim
