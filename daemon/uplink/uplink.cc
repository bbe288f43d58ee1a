#include "daemon/uplink/uplink.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/rpc/backoff.h"
#include "base/rpc/channel.h"
#include "base/rpc/status.h"
#include "base/rpc/status_macros.h"

namespace lockstep::daemon {
namespace {

constexpr uint32_t kProtocol = 1;
constexpr Nanos kPingDeadline = Nanos::Seconds(1);
constexpr Nanos kLastReplyWait = Nanos::Millis(500);

void SetVersion(const std::string& program, v1::Version* version) {
  version->set_protocol_min(kProtocol);
  version->set_protocol_max(kProtocol);
  version->set_program(program);
}

}  // namespace

Uplink::Uplink(UplinkOptions options, std::shared_ptr<Spool> spool, const Clock& clock, UplinkEvents& events,
               Log& log)
    : options_(std::move(options)),
      spool_(std::move(spool)),
      clock_(clock),
      events_(events),
      log_(log),
      clock_sync_(clock, [this] { Wake(); }) {
  spool_->OnReady([this] {
    {
      MutexLock lock(&mutex_);
      spool_ready_ = true;
    }
    changed_.SignalAll();
  });
}

Uplink::~Uplink() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  changed_.SignalAll();
  if (thread_.joinable()) thread_.join();
  spool_->OnReady(nullptr);
}

void Uplink::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Uplink::Flush(Nanos at_most) {
  const MonoTime until = clock_.Monotonic() + at_most;
  MutexLock lock(&mutex_);
  while (!stopping_ && up_ && !spool_->empty() && clock_.Monotonic() < until) {
    changed_.WaitFor(&mutex_, Nanos::Millis(5));
  }
}

void Uplink::Wake() {
  {
    MutexLock lock(&mutex_);
    spool_ready_ = true;
  }
  changed_.SignalAll();
}

std::string Uplink::last_error() {
  MutexLock lock(&mutex_);
  return last_error_;
}

void Uplink::SetRanks(v1::RankUpdate ranks) {
  {
    MutexLock lock(&mutex_);
    ranks_ = std::move(ranks);
    ranks_changed_ = true;
  }
  changed_.SignalAll();
}

void Uplink::SendStates(v1::RankStates states) {
  {
    MutexLock lock(&mutex_);
    // States matter only while it is up: after a reconnect all states are sent again.
    if (!up_) return;
    states_.push_back(std::move(states));
    if (states_.size() > kMostStates) states_.pop_front();
  }
  changed_.SignalAll();
}

void Uplink::SendProgress(v1::ProgressAnswer answer) {
  {
    MutexLock lock(&mutex_);
    if (!up_) return;
    answers_.push_back(std::move(answer));
    if (answers_.size() > kMostAnswers) answers_.pop_front();
  }
  changed_.SignalAll();
}

void Uplink::SendSteps(v1::StepUpdate update) {
  {
    MutexLock lock(&mutex_);
    if (!up_) return;
    steps_.push_back(std::move(update));
    if (steps_.size() > kMostStepUpdates) steps_.pop_front();
  }
  changed_.SignalAll();
}

void Uplink::Run() {
  rpc::Backoff backoff(options_.session);
  MonoTime last_there = clock_.Monotonic();
  while (true) {
    bool registered = false;
    const absl::Status status = RunStream(&registered);
    up_ = false;
    const MonoTime now = clock_.Monotonic();
    if (registered) last_there = now;
    const bool gone =
        options_.mode == UplinkOptions::Mode::kWhileReachable && now - last_there >= options_.gone_after;
    bool last = options_.mode == UplinkOptions::Mode::kOnce || gone;
    bool changed = false;
    {
      MutexLock lock(&mutex_);
      last = last || stopping_;
      changed = registered || last || last_error_ != status.message();
      last_error_ = std::string(status.message());
    }
    if (registered) backoff.Reset();
    // Not logged for every attempt, because an aggregator may be away for days.
    if (changed) log_.Info("uplink_down", {{"aggregator", options_.name}, {"reason", status.message()}});
    events_.OnUplinkDown(options_.id, status, last);
    if (last) return;
    const Nanos wait = backoff.Next();
    MutexLock lock(&mutex_);
    if (changed_.WaitFor(&mutex_, wait, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; }))
      return;
  }
}

// Waits in slices, so that stopping does not wait for the network.
bool Uplink::WaitConnected(grpc::Channel& channel) {
  const MonoTime until = clock_.Monotonic() + options_.register_timeout;
  while (clock_.Monotonic() < until) {
    if (channel.WaitForConnected(std::chrono::system_clock::now() + std::chrono::milliseconds(100)))
      return true;
    if (!options_.server_problem().empty()) return false;
    MutexLock lock(&mutex_);
    if (stopping_) return false;
  }
  return false;
}

absl::Status Uplink::RunStream(bool* registered) {
  {
    MutexLock lock(&mutex_);
    broken_ = false;
    registered_.reset();
    states_.clear();
    steps_.clear();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, options_.connect());
  const bool connected =
      options_.channels == UplinkOptions::Channels::kOverSockets || WaitConnected(*channel);
  if (!connected) {
    const std::string problem = options_.server_problem();
    return problem.empty() ? absl::UnavailableError("cannot connect") : absl::UnauthenticatedError(problem);
  }

  grpc::ClientContext context;
  rpc::Prepare(context, options_.token, Nanos::Max());
  const auto stub = v1::Ingest::NewStub(channel);
  {
    MutexLock lock(&mutex_);
    if (stopping_) return absl::CancelledError("stopping");
    context_ = &context;
  }
  const std::unique_ptr<Stream> stream = stub->Stream(&context);
  std::thread reader([&] { ReadLoop(*stream); });
  absl::Status status = Handshake(*stream);
  if (status.ok()) {
    *registered = true;
    clock_sync_.Start([&](HostTime t1) -> std::optional<ClockSync::Answer> {
      grpc::ClientContext ping_context;
      rpc::Prepare(ping_context, options_.token, kPingDeadline);
      v1::PingRequest request;
      request.set_t1_ns(t1.ns());
      v1::PingReply reply;
      if (!stub->Ping(&ping_context, request, &reply).ok()) return std::nullopt;
      return ClockSync::Answer{JobTime(reply.t2_ns()), JobTime(reply.t3_ns())};
    });
    status = WriteLoop(*stream);
  }
  {
    MutexLock lock(&mutex_);
    context_ = nullptr;
    // If the other end broke the stream, its error message is still on its way; cancelling would discard it.
    if (absl::IsUnavailable(status))
      changed_.WaitFor(&mutex_, kLastReplyWait,
                       [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return broken_ || stopping_; });
    if (!broken_) context.TryCancel();
  }
  clock_sync_.Stop();
  reader.join();
  const absl::Status finish = rpc::FromGrpc(stream->Finish());
  // If the aggregator ended the stream, its status says more than the failed write.
  return finish.ok() || absl::IsCancelled(finish) ? status : finish;
}

absl::Status Uplink::Handshake(Stream& stream) {
  v1::FromDaemon message;
  v1::DaemonHello& hello = *message.mutable_hello();
  SetVersion(options_.version, hello.mutable_version());
  hello.set_node_id(options_.node_id);
  hello.set_host_name(options_.host_name);
  hello.set_session(options_.session);
  if (!stream.Write(message)) return absl::UnavailableError("the stream broke before the hello");

  v1::Register registered;
  v1::FromDaemon ranks;
  {
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, options_.register_timeout, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || broken_ || registered_.has_value();
    });
    if (!registered_) {
      return broken_ ? absl::UnavailableError("the stream broke before the aggregator answered the hello")
                     : absl::DeadlineExceededError("the aggregator did not answer the hello");
    }
    registered = *registered_;
    if (!registered.refused().empty())
      return absl::FailedPreconditionError(absl::StrCat("refused: ", registered.refused()));
    if (registered.has_version() && (registered.version().protocol_min() > kProtocol ||
                                     registered.version().protocol_max() < kProtocol)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the aggregator supports protocols ", registered.version().protocol_min(), " to ",
          registered.version().protocol_max(), ", this daemon ", kProtocol, ": use one release for both"));
    }
    spool_->Resume(registered.acked_sequence(), registered.credits());
    *ranks.mutable_ranks() = ranks_;
    ranks_changed_ = false;
    spool_ready_ = true;
  }
  if (!stream.Write(ranks)) return absl::UnavailableError("the stream broke before the ranks");
  health_sent_at_.reset();
  connected_at_ns_ = clock_.Realtime().ns();
  ++registrations_;
  up_ = true;
  log_.Info("uplink_up", {{"aggregator", options_.name},
                          {"credits", registered.credits()},
                          {"stored", registered.acked_sequence()}});
  events_.OnUplinkUp(options_.id);
  return absl::OkStatus();
}

void Uplink::ReadLoop(Stream& stream) {
  v1::FromAggregator message;
  while (stream.Read(&message)) OnMessage(message);
  {
    MutexLock lock(&mutex_);
    broken_ = true;
  }
  changed_.SignalAll();
}

void Uplink::OnMessage(const v1::FromAggregator& message) {
  switch (message.message_case()) {
    case v1::FromAggregator::kRegister: {
      // Sent before the requests that follow it, so that none of them is taken for a forgotten capture.
      if (message.register_().has_running()) events_.OnRequest(options_.id, message);
      {
        MutexLock lock(&mutex_);
        if (!registered_) registered_ = message.register_();
      }
      changed_.SignalAll();
      return;
    }
    case v1::FromAggregator::kAck:
      spool_->Acknowledge(message.ack().through(), message.ack().credits());
      return;
    case v1::FromAggregator::kArm:
    case v1::FromAggregator::kArmPast:
    case v1::FromAggregator::kStart:
    case v1::FromAggregator::kStop:
    case v1::FromAggregator::kReadProgress:
    case v1::FromAggregator::kFollowSteps:
      events_.OnRequest(options_.id, message);
      return;
    case v1::FromAggregator::MESSAGE_NOT_SET:
      return;  // from a newer aggregator
  }
}

v1::DaemonHealth Uplink::Health() const {
  const SpoolStats stats = spool_->stats();
  v1::DaemonHealth health;
  health.set_spool_bytes(stats.bytes);
  health.set_spool_limit_bytes(options_.spool_limit_bytes);
  health.set_spool_dropped_records(stats.dropped_records);
  health.set_registrations(registrations_);
  return health;
}

bool Uplink::NextMessage(v1::FromDaemon& message) {
  message.Clear();
  {
    MutexLock lock(&mutex_);
    if (ranks_changed_) {
      ranks_changed_ = false;
      *message.mutable_ranks() = ranks_;
      return true;
    }
    if (!states_.empty()) {
      *message.mutable_states() = std::move(states_.front());
      states_.pop_front();
      return true;
    }
    if (!answers_.empty()) {
      *message.mutable_progress() = std::move(answers_.front());
      answers_.pop_front();
      return true;
    }
    if (!steps_.empty()) {
      *message.mutable_steps() = std::move(steps_.front());
      steps_.pop_front();
      return true;
    }
  }
  if (std::vector<v1::ClockSample> samples = clock_sync_.TakeSamples(); !samples.empty()) {
    for (v1::ClockSample& sample : samples) *message.mutable_clock()->add_samples() = std::move(sample);
    return true;
  }
  if (const MonoTime now = clock_.Monotonic(); !health_sent_at_ || now - *health_sent_at_ >= kHealthPause) {
    health_sent_at_ = now;
    *message.mutable_health() = Health();
    return true;
  }
  return spool_->Take(message);
}

absl::Status Uplink::WriteLoop(Stream& stream) {
  v1::FromDaemon message;
  while (true) {
    {
      MutexLock lock(&mutex_);
      changed_.Wait(&mutex_, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || broken_ || spool_ready_ || ranks_changed_ || !states_.empty() ||
               !answers_.empty() || !steps_.empty();
      });
      if (stopping_) return absl::CancelledError("stopping");
      if (broken_) return absl::UnavailableError("the aggregator ended the stream");
      spool_ready_ = false;
    }
    while (NextMessage(message)) {
      if (!stream.Write(message)) return absl::UnavailableError("the stream broke");
    }
    changed_.SignalAll();  // for Flush
  }
}

}  // namespace lockstep::daemon
