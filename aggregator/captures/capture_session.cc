#include "aggregator/captures/capture_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::ingest {
namespace {

constexpr char kStartingPhase[] = "starting";
// A start that is nearer is not worth a phase of its own.
constexpr Nanos kToldAhead = Nanos::Seconds(1);

const char* PhaseName(int phase) {
  constexpr const char* kNames[] = {"arming", kStartingPhase, "capturing", "draining", "closed"};
  return kNames[phase];
}

}  // namespace

CaptureSession::CaptureSession(std::string id, Selection selection, const v1::TraceRequest& request,
                               SessionEnvironment env)
    : id_(std::move(id)),
      selection_(std::move(selection)),
      request_(request),
      env_(std::move(env)),
      made_at_(env_.clock->Now()) {
  for (const SeenRank& seen : selection_.ranks) {
    Process process;
    process.seen = seen;
    *process.state.mutable_process() = seen.rank.process();
    process.state.set_state(v1::RankState::SEEN);
    const ChosenPath path = ChoosePath(request, seen.rank);
    process.kineto = path.kineto;
    process.kineto_if_held = path.kineto_if_held;
    process.refused = path.refused;
    if (!process.refused.empty()) {
      process.state.set_state(v1::RankState::FAILED);
      process.state.set_text(process.refused);
    }
    processes_.push_back(std::move(process));
  }
}

absl::StatusOr<std::unique_ptr<CaptureSession>> CaptureSession::Create(std::string id,
                                                                       const std::string& folder,
                                                                       Selection selection,
                                                                       const v1::TraceRequest& request,
                                                                       SessionEnvironment env) {
  std::unique_ptr<CaptureSession> session(
      new CaptureSession(std::move(id), std::move(selection), request, std::move(env)));
  auto writer = store::RecordsWriter::Create(folder, session->MakeManifest());
  if (!writer.ok()) return writer.status();
  session->writer_ = *std::move(writer);
  return session;
}

v1::TraceFinished CaptureSession::Run(const Emit& emit) {
  v1::TraceEvent accepted;
  v1::TraceAccepted& a = *accepted.mutable_accepted();
  a.set_capture(id_);
  a.set_job(selection_.job);
  a.set_world_size(selection_.world_size);
  for (const SeenRank& seen : selection_.ranks) *a.add_ranks() = seen.rank;
  for (const int32_t rank : selection_.missing_ranks) a.add_missing_ranks(rank);
  emit(accepted);
  Arm(emit);
  Start();
  AwaitStart(emit);
  AgreeOnStep(emit);
  Capture(emit);
  Drain(emit);
  return Close(emit);
}

void CaptureSession::Stop() {
  std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void CaptureSession::Abandon() {
  std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  abandoned_ = MonoNow();
  changed_.notify_all();
}

void CaptureSession::Arm(const Emit& emit) {
  EmitPhase(emit, "arming");
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Process& process : processes_) Report(process);
  }
  for (const DaemonKey& daemon : Daemons(Of::kAll)) SendDown(daemon, ArmMessage(daemon));
  const Nanos timeout =
      request_.arm_timeout_ns() > 0 ? Nanos(request_.arm_timeout_ns()) : env_.limits.arm_timeout;
  WaitFor(emit, MonoNow() + timeout, [this] { return stopping_ || AllSettled(); });
  std::lock_guard<std::mutex> lock(mutex_);
  for (Process& process : processes_) {
    if (Settled(process) || stopping_) continue;
    const std::string& waits = process.state.text();
    SetState(process, v1::RankState::GONE,
             absl::StrCat("did not arm within ", timeout.millis(), " ms", waits.empty() ? "" : ": ", waits));
  }
}

void CaptureSession::AwaitStart(const Emit& emit) {
  if (t0_ == JobTime()) return;
  const Nanos ahead = t0_ - env_.clock->Now();
  if (ahead > kToldAhead) {
    v1::TraceEvent event;
    event.mutable_progress()->set_phase(kStartingPhase);
    event.mutable_progress()->set_remaining_ns(ahead.ns());
    emit(event);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      phase_ = Phase::kStarting;
    }
    WaitFor(emit, MonoNow() + ahead, [this] { return stopping_ || AllSettled(); });
    std::lock_guard<std::mutex> lock(mutex_);
    phase_ = Phase::kCapturing;
  }
  EmitPhase(emit, triggered() ? "waiting" : "capturing");
}

void CaptureSession::Capture(const Emit& emit) {
  if (t1_ == JobTime()) return;
  MonoTime until = MonoNow() + (t1_ - env_.clock->Now());
  if (triggered()) {
    // A begin that comes at the last moment, and then its end.
    const v1::Trigger& trigger = request_.trigger();
    until = until +
            (trigger.end() == v1::Trigger::AFTER_DURATION ? Nanos(trigger.duration_ns()) : TriggerTimeout());
  }
  WaitFor(emit, until, [this] { return stopping_ || AllSettled(); });
}

void CaptureSession::Drain(const Emit& emit) {
  bool early = false;
  bool nothing = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    phase_ = Phase::kDraining;
    last_news_ = MonoNow();
    early = stopping_;
    nothing = t0_ == JobTime();
    if (early && !nothing) t1_ = std::min(t1_, env_.clock->Now());
  }
  v1::FromAggregator stop;
  stop.mutable_stop()->set_capture(id_);
  if (early || nothing) {
    stop.mutable_stop()->set_abort(nothing);
    for (const DaemonKey& daemon : Daemons(Of::kAll)) SendDown(daemon, stop);
  }
  if (nothing) return;
  EmitPhase(emit, "draining");
  const Nanos quiet = AnyKineto() ? env_.limits.kineto_quiet : env_.limits.quiet;
  WaitFor(emit, MonoNow() + (AnyKineto() ? env_.limits.kineto_drain : env_.limits.drain), [this, quiet] {
    const MonoTime now = MonoNow();
    return AllSettled() || now - last_news_ > quiet ||
           (abandoned_ != MonoTime() && now - abandoned_ > env_.limits.abandon_wait);
  });
  bool unfinished = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (Process& process : processes_) {
      if (!process.armed || process.ended) continue;
      unfinished = true;
      if (process.state.state() == v1::RankState::GONE || process.state.state() == v1::RankState::FAILED)
        continue;
      SetState(
          process, v1::RankState::GONE,
          abandoned_ != MonoTime()
              ? std::string("the aggregator ended before its last records came")
              : absl::StrCat("its last records did not come: nothing was heard for ", quiet.seconds(), " s"));
    }
  }
  if (!unfinished) return;
  stop.mutable_stop()->set_abort(true);
  for (const DaemonKey& daemon : Daemons(Of::kArmed)) SendDown(daemon, stop);
}

v1::TraceFinished CaptureSession::Close(const Emit& emit) {
  store::Manifest manifest;
  v1::TraceFinished finished;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    phase_ = Phase::kClosed;
    EmitPending(emit, lock, MonoTime());
    finished = Outcome();
    manifest = MakeManifest();
  }
  const absl::Status closed = writer_->Close(manifest);
  if (!closed.ok()) {
    finished.set_outcome(v1::TraceFinished::FAILED);
    finished.set_text(absl::StrCat(closed.message(), "; what was written stays in ", writer_->folder()));
  }
  return finished;
}

void CaptureSession::WaitFor(const Emit& emit, MonoTime until, const std::function<bool()>& done) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    EmitPending(emit, lock, until);
    if (done()) break;
    const MonoTime now = MonoNow();
    if (now >= until) break;
    if (!events_.empty()) continue;
    changed_.wait_for(lock, std::chrono::nanoseconds(std::min(until - now, env_.limits.progress).ns()));
  }
  EmitPending(emit, lock, until);
}

void CaptureSession::EmitPending(const Emit& emit, std::unique_lock<std::mutex>& lock, MonoTime until) {
  while (!events_.empty()) {
    const v1::TraceEvent event = std::move(events_.front());
    events_.pop_front();
    lock.unlock();
    emit(event);
    lock.lock();
  }
  const MonoTime now = MonoNow();
  if (until == MonoTime() || now - last_progress_ < env_.limits.progress) return;
  last_progress_ = now;
  v1::TraceEvent event;
  v1::TraceProgress& progress = *event.mutable_progress();
  progress.set_phase(PhaseName(static_cast<int>(phase_)));
  progress.set_remaining_ns(std::max(until - now, Nanos()).ns());
  progress.set_records(records_);
  for (const Process& process : processes_) {
    if (phase_ != Phase::kCapturing || process.state.state() != v1::RankState::WAITING) continue;
    progress.set_phase("waiting");
    progress.set_waiting(progress.waiting() + 1);
    progress.set_step(std::max(progress.step(), process.state.step()));
  }
  lock.unlock();
  emit(event);
  lock.lock();
}

void CaptureSession::EmitPhase(const Emit& emit, const char* phase) {
  v1::TraceEvent event;
  event.mutable_progress()->set_phase(phase);
  emit(event);
}

void CaptureSession::SendDown(const DaemonKey& daemon, const v1::FromAggregator& message) {
  if (env_.send(daemon, message)) return;
  std::lock_guard<std::mutex> lock(mutex_);
  undelivered_[daemon].push_back(message);
}

std::vector<DaemonKey> CaptureSession::Daemons(Of processes) const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<DaemonKey> out;
  for (const Process& process : processes_) {
    if (processes == Of::kArmed && !process.armed) continue;
    if (std::find(out.begin(), out.end(), process.seen.daemon) == out.end())
      out.push_back(process.seen.daemon);
  }
  return out;
}

v1::FromAggregator CaptureSession::ArmMessage(const DaemonKey& daemon) const {
  v1::FromAggregator message;
  v1::Arm& arm = *message.mutable_arm();
  arm.set_capture(id_);
  arm.set_activities(request_.activities());
  arm.set_timeout_ns(request_.arm_timeout_ns() > 0 ? request_.arm_timeout_ns()
                                                   : env_.limits.arm_timeout.ns());
  arm.set_framework(request_.framework());
  arm.set_sample(env_.purpose == Purpose::kSample);
  for (const Process& process : processes_) {
    if (process.seen.daemon != daemon || !process.refused.empty()) continue;
    *arm.add_processes() = process.seen.rank.process();
    if (process.kineto) *arm.add_kineto() = process.seen.rank.process();
    if (process.kineto_if_held) *arm.add_kineto_if_held() = process.seen.rank.process();
  }
  return message;
}

bool CaptureSession::AnyKineto() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const Process& p) { return p.kineto && p.refused.empty(); });
}

bool CaptureSession::Settled(const Process& process) const {
  const bool lost =
      process.state.state() == v1::RankState::GONE || process.state.state() == v1::RankState::FAILED;
  if (phase_ == Phase::kArming) return process.armed || lost;
  if (!process.armed || process.ended) return true;
  return lost && MonoNow() - process.gone_since > env_.limits.gone_wait;
}

bool CaptureSession::AllSettled() const {
  return std::all_of(processes_.begin(), processes_.end(), [this](const Process& p) { return Settled(p); });
}

}  // namespace lockstep::ingest
