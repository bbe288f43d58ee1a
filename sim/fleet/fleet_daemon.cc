#include "sim/fleet/fleet_daemon.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/random_number.h"
#include "base/read_clock.h"
#include "base/rpc/channel.h"
#include "base/rpc/status.h"

namespace lockstep::sim {
namespace {

constexpr uint32_t kProtocol = 1;
constexpr int kFirstPid = 1000;
constexpr uint64_t kStartTicks = 7;
constexpr Nanos kIdleClockPause = Nanos::Seconds(10);
constexpr Nanos kShortestWindow = Nanos::Millis(2);  // FleetJob

std::chrono::system_clock::time_point AtTime(HostTime t) {
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::nanoseconds(t.ns())));
}

}  // namespace

FleetDaemon::FleetDaemon(uint32_t number, const FleetOptions& options, const rpc::Token& token,
                         std::shared_ptr<grpc::Channel> channel, grpc::CompletionQueue& queue,
                         FleetCaptures& captures, FleetEvents& events)
    : number_(number),
      options_(options),
      token_(token),
      node_(absl::StrFormat("fleet-%05d", number)),
      session_(RandomNumber()),
      captures_(captures),
      events_(events),
      queue_(queue),
      stub_(v1::Ingest::NewStub(std::move(channel))),
      clock_(*stub_, token_, queue_, &pinged_, &paused_) {}

void FleetDaemon::Start() {
  MutexLock lock(&mutex_);
  rpc::Prepare(context_, token_, Nanos::Max());
  stream_ = stub_->AsyncStream(&context_, &queue_, &started_);
}

void FleetDaemon::Stop() {
  MutexLock lock(&mutex_);
  stopping_ = true;
  context_.TryCancel();
  clock_.Stop();
  if (alarm_set_) alarm_.Cancel();
}

// ---- Completions

void FleetDaemon::OnStarted(bool ok) {
  MutexLock lock(&mutex_);
  if (!ok) {
    broken_ = true;
    stream_->Finish(&status_, &finished_);
    return;
  }
  SendHello();
  stream_->Read(&incoming_, &read_);
}

void FleetDaemon::OnRead(bool ok) {
  MutexLock lock(&mutex_);
  if (!ok) {
    broken_ = true;
    stream_->Finish(&status_, &finished_);
    return;
  }
  Handle(incoming_);
  stream_->Read(&incoming_, &read_);
}

void FleetDaemon::OnWritten(bool ok) {
  MutexLock lock(&mutex_);
  writing_ = false;
  const std::optional<FleetMoment> moment = std::exchange(being_written_, std::nullopt);
  if (!ok) return;  // the read fails too
  if (moment && running_) captures_.Note(running_->capture, *moment, ReadRealtime());
  Write();
}

void FleetDaemon::OnFinished(bool) {
  absl::Status why;
  FleetEvents::Expected expected = FleetEvents::Expected::kNo;
  {
    MutexLock lock(&mutex_);
    clock_.Stop();
    if (alarm_set_) alarm_.Cancel();
    FinishCapture(FleetCaptures::End::kLeft);
    why = !refused_.ok() ? refused_ : rpc::FromGrpc(status_);
    if (stopping_) expected = FleetEvents::Expected::kYes;
  }
  events_.OnOver(number_, why, expected);
}

void FleetDaemon::OnPinged(bool) {
  MutexLock lock(&mutex_);
  if (!clock_.OnPinged()) return;
  Outgoing out;
  *out.message.mutable_clock() = clock_.TakeSamples();
  control_.push_back(std::move(out));
  Write();
}

void FleetDaemon::OnPaused(bool) {
  MutexLock lock(&mutex_);
  clock_.OnPaused();
}

void FleetDaemon::OnEncode(bool) {
  std::string capture;
  std::vector<v1::ProcessKey> processes;
  Interval<HostTime> window;
  {
    MutexLock lock(&mutex_);
    encoding_ = false;
    if (!running_ || running_->window.end == HostTime()) return;
    capture = running_->capture;
    processes = running_->processes;
    window = running_->window;
  }
  const std::shared_ptr<const FleetJob> job =
      captures_.Job(capture,
                    {.ranks = options_.ranks(),
                     .rows = options_.rows,
                     .slow_rank = options_.slow_rank,
                     .slow_by_percent = options_.slow_by_percent,
                     .window = std::max(window.length(), kShortestWindow)},
                    window);
  const FleetEpoch epoch{window.start, ReadMonotonic() + (window.start - ReadRealtime())};
  std::vector<std::vector<RankBatch>> batches;
  Nanos decode;
  for (const v1::ProcessKey& process : processes) {
    batches.push_back(EncodeRank(*job, RankOf(process), epoch));
    if (options_.measure_decode) decode += TimeToDecode(batches.back());
  }
  captures_.Note(capture, FleetMoment::kEncoded, ReadRealtime());
  MutexLock lock(&mutex_);
  if (!running_ || running_->capture != capture) return;
  running_->batches = std::move(batches);
  running_->size.decode = decode;
  running_->encoded = true;
  SendRows();
}

void FleetDaemon::OnAlarm(bool) {
  MutexLock lock(&mutex_);
  alarm_set_ = false;
  if (!running_ || running_->window.end == HostTime() || stopping_ || broken_) return;
  const HostTime now = ReadRealtime();
  if (now < running_->window.start) return SetAlarm(running_->window.start);
  const HostTime middle = running_->window.start + running_->window.length() / 2;
  if (now < running_->window.end) {
    const bool leaves = options_.leaver == number_;
    if (leaves && now >= middle) {
      stopping_ = true;
      return context_.TryCancel();
    }
    SendStates(v1::RankState::CAPTURING, std::nullopt);
    return SetAlarm(leaves ? middle : running_->window.end);
  }
  running_->window_over = true;
  SendRows();
}

// ---- Messages of the aggregator

void FleetDaemon::Handle(const v1::FromAggregator& message) {
  switch (message.message_case()) {
    case v1::FromAggregator::kRegister:
      return Register(message.register_());
    case v1::FromAggregator::kAck:
      return Acknowledge(message.ack());
    case v1::FromAggregator::kArm:
      return Arm(message.arm());
    case v1::FromAggregator::kArmPast:
      return RefusePast(message.arm_past());
    case v1::FromAggregator::kStart:
      return Begin(message.start());
    case v1::FromAggregator::kStop:
      return End(message.stop());
    case v1::FromAggregator::kReadProgress:
      return AnswerProgress(message.read_progress().request());
    default:
      return;
  }
}

void FleetDaemon::Register(const v1::Register& reply) {
  if (!reply.refused().empty()) {
    refused_ = absl::FailedPreconditionError(absl::StrCat("the aggregator refused it: ", reply.refused()));
    context_.TryCancel();
    return;
  }
  credits_ = std::max(reply.credits(), 1u);
  SendRanks();
  clock_.Burst(options_.clock_burst, kIdleClockPause);
  events_.OnRegistered();
}

void FleetDaemon::Acknowledge(const v1::Ack& ack) {
  acked_sequence_ = std::max(acked_sequence_, ack.through());
  credits_ = std::max(ack.credits(), 1u);
  Write();
  if (!running_ || running_->last_sequence == 0 || acked_sequence_ < running_->last_sequence) return;
  captures_.Note(running_->capture, FleetMoment::kAcked, ReadRealtime());
  FinishCapture(FleetCaptures::End::kSent);
}

void FleetDaemon::Arm(const v1::Arm& arm) {
  if (running_) return;  // sent again, or the aggregator's mistake, which its arm timeout shows
  captures_.Begin(arm.capture(), ReadRealtime());
  running_.emplace();
  running_->capture = arm.capture();
  running_->processes.assign(arm.processes().begin(), arm.processes().end());
  running_->size.ranks = running_->processes.size();
  SendStates(v1::RankState::ARMED, FleetMoment::kArmed);
  clock_.Burst(options_.clock_burst, options_.clock_pause);
}

void FleetDaemon::RefusePast(const v1::Arm& arm) {
  Outgoing out;
  v1::RankStates& states = *out.message.mutable_states();
  states.set_capture(arm.capture());
  for (const v1::ProcessKey& process : arm.processes()) {
    v1::RankState& state = *states.add_states();
    *state.mutable_process() = process;
    state.set_state(v1::RankState::FAILED);
    state.set_text("a simulated daemon keeps no operation logs");
  }
  control_.push_back(std::move(out));
  Write();
}

void FleetDaemon::Begin(const v1::Start& start) {
  if (!running_ || running_->capture != start.capture() || running_->window.end != HostTime()) return;
  const HostTime now = ReadRealtime();
  captures_.Note(running_->capture, FleetMoment::kStart, now);
  running_->window = {HostTime(start.t0_ns()), HostTime(start.t1_ns())};
  if (running_->window.end <= running_->window.start || start.has_trigger()) {
    running_->window.end = running_->window.start + kShortestWindow;
  }
  // A completion that is on its way from an aborted capture serves this one.
  if (!std::exchange(encoding_, true)) encode_now_.Set(&queue_, AtTime(now), &encode_);
  if (alarm_set_) return alarm_.Cancel();
  SetAlarm(running_->window.start);
}

void FleetDaemon::End(const v1::Stop& stop) {
  if (!running_ || running_->capture != stop.capture()) return;
  if (stop.abort()) {
    data_.clear();
    next_sequence_ = written_sequence_ + 1;  // a missing number would count as a loss
    return FinishCapture(FleetCaptures::End::kAborted);
  }
  running_->window_over = true;
  SendRows();
}

void FleetDaemon::AnswerProgress(uint64_t request) {
  Outgoing out;
  v1::ProgressAnswer& answer = *out.message.mutable_progress();
  answer.set_request(request);
  answer.mutable_node();
  control_.push_back(std::move(out));
  Write();
}

// ---- Messages to the aggregator

uint32_t FleetDaemon::RankOf(const v1::ProcessKey& process) const {
  const auto local = static_cast<uint32_t>(std::max(process.pid() - kFirstPid, 0));
  return number_ * options_.ranks_per_daemon + std::min(local, options_.ranks_per_daemon - 1);
}

void FleetDaemon::SendHello() {
  Outgoing out;
  v1::DaemonHello& hello = *out.message.mutable_hello();
  hello.mutable_version()->set_protocol_min(kProtocol);
  hello.mutable_version()->set_protocol_max(kProtocol);
  hello.mutable_version()->set_program("lockstep-sim-fleet");
  hello.set_node_id(node_);
  hello.set_host_name(node_);
  hello.set_session(session_);
  control_.push_back(std::move(out));
  Write();
}

void FleetDaemon::SendRanks() {
  Outgoing out;
  v1::RankUpdate& update = *out.message.mutable_ranks();
  for (uint32_t local = 0; local < options_.ranks_per_daemon; ++local) {
    v1::Rank& rank = *update.add_ranks();
    rank.mutable_process()->set_pid(kFirstPid + static_cast<int>(local));
    rank.mutable_process()->set_start_ticks(kStartTicks);
    rank.set_uid(::getuid());
    rank.set_rank(static_cast<int32_t>(number_ * options_.ranks_per_daemon + local));
    rank.set_world_size(static_cast<int32_t>(options_.ranks()));
    rank.set_local_rank(static_cast<int32_t>(local));
    rank.set_job(options_.job);
    rank.set_rank_source("LOCKSTEP");
    rank.set_job_source("LOCKSTEP");
    rank.set_program("lockstep-sim-fleet");
    rank.set_incarnation(1);
    rank.set_via("cupti");
  }
  control_.push_back(std::move(out));
  Write();
}

void FleetDaemon::SendStates(v1::RankState::State state, std::optional<FleetMoment> moment) {
  Outgoing out;
  out.moment = moment;
  v1::RankStates& states = *out.message.mutable_states();
  states.set_capture(running_->capture);
  for (size_t i = 0; i < running_->processes.size(); ++i) {
    v1::RankState& of = *states.add_states();
    *of.mutable_process() = running_->processes[i];
    of.set_state(state);
    if (state != v1::RankState::DONE) continue;
    uint64_t rows = 0;
    for (const RankBatch& batch : running_->batches[i]) rows += batch.rows;
    of.set_records(rows);
  }
  control_.push_back(std::move(out));
  Write();
}

void FleetDaemon::SendRows() {
  if (!running_->encoded || !running_->window_over || running_->last_sequence != 0) return;
  SendStates(v1::RankState::DONE, std::nullopt);
  for (size_t i = 0; i < running_->processes.size(); ++i)
    QueueProcess(running_->processes[i], std::move(running_->batches[i]));
  running_->batches.clear();
  running_->last_sequence = next_sequence_ - 1;
  data_.back().moment = FleetMoment::kSentAll;
  Write();
}

void FleetDaemon::QueueProcess(const v1::ProcessKey& process, std::vector<RankBatch> batches) {
  for (RankBatch& made : batches) {
    Outgoing out;
    out.moment = FleetMoment::kBatch;
    v1::Batch& batch = *out.message.mutable_batch();
    batch.set_sequence(next_sequence_++);
    batch.set_capture(running_->capture);
    *batch.mutable_process() = process;
    batch.set_incarnation(1);
    batch.set_rows(made.rows);
    ++running_->size.batches;
    running_->size.rows += made.rows;
    running_->size.bytes += made.blocks.size();
    batch.set_blocks(std::move(made.blocks));
    data_.push_back(std::move(out));
  }
  QueueEnd(process);
}

void FleetDaemon::QueueEnd(const v1::ProcessKey& process) {
  Outgoing out;
  v1::CaptureEnd& end = *out.message.mutable_end();
  end.set_sequence(next_sequence_++);
  end.set_capture(running_->capture);
  *end.mutable_process() = process;
  end.set_t0_host_ns(running_->window.start.ns());
  end.set_t1_host_ns(running_->window.end.ns());
  data_.push_back(std::move(out));
}

void FleetDaemon::FinishCapture(FleetCaptures::End end) {
  if (!running_) return;
  captures_.Finish(running_->capture, running_->size, end);
  running_.reset();
}

void FleetDaemon::SetAlarm(HostTime at) {
  alarm_set_ = true;
  alarm_.Set(&queue_, AtTime(at), &alarmed_);
}

void FleetDaemon::Write() {
  if (writing_ || broken_) return;
  const bool data = control_.empty();
  if (data && (data_.empty() || written_sequence_ >= acked_sequence_ + credits_)) return;
  std::deque<Outgoing>& queue = data ? data_ : control_;
  const Outgoing next = std::move(queue.front());
  queue.pop_front();
  if (data) ++written_sequence_;
  writing_ = true;
  being_written_ = next.moment;
  // gRPC has serialized the message when the call returns.
  stream_->Write(next.message, &written_);
}

}  // namespace lockstep::sim
