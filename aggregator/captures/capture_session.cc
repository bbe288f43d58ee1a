#include "aggregator/captures/capture_session.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "aggregator/captures/journaled_files.h"
#include "base/files/own_folder.h"

namespace lockstep::aggregator {
namespace {

// A start that is nearer gets no phase of its own.
constexpr Nanos kReportedDelay = Nanos::Seconds(1);
// Clients arm within some milliseconds, and thousands of daemons need some hundred.
constexpr Nanos kSoon = Nanos::Millis(300);

}  // namespace

CaptureSession::CaptureSession(std::string id, Purpose purpose, Selection selection,
                               const v1::TraceRequest& request, const SessionEnvironment& env,
                               JobTime made_at)
    : id_(std::move(id)),
      purpose_(purpose),
      selection_(std::move(selection)),
      request_(request),
      env_(env),
      made_at_(made_at),
      ranks_(selection_, request_, env_.limits),
      plan_(request_, env_.limits) {}

absl::StatusOr<std::unique_ptr<CaptureSession>> CaptureSession::Create(std::string id,
                                                                       const std::string& folder,
                                                                       Purpose purpose, Selection selection,
                                                                       const v1::TraceRequest& request,
                                                                       const SessionEnvironment& env) {
  std::unique_ptr<CaptureSession> session(
      new CaptureSession(std::move(id), purpose, std::move(selection), request, env, env.clock.Now()));
  MutexLock lock(&session->mutex_);
  if (absl::Status made = MakeOwnFolder(folder, OwnFolder::kStoredCapture); !made.ok()) return made;
  // Both wait for the disk, and the ranks are armed afterwards. Together they wait once.
  std::future<absl::StatusOr<std::unique_ptr<CaptureJournal>>> journal_made =
      std::async(std::launch::async, [&s = *session, &folder] { return s.MakeJournal(folder); });
  auto writer = capture::RecordsWriter::Create(folder, MakeManifest(session->Facts(), {}));
  absl::StatusOr<std::unique_ptr<CaptureJournal>> journal = journal_made.get();
  if (!writer.ok()) return writer.status();
  if (!journal.ok()) return journal.status();
  session->data_ = std::make_unique<CaptureData>(*std::move(writer), *std::move(journal), session->selection_,
                                                 env.limits.store, env.lost);
  return session;
}

absl::StatusOr<std::unique_ptr<CaptureJournal>> CaptureSession::MakeJournal(const std::string& folder) const {
  if (purpose_ != Purpose::kCapture) return CaptureJournal::None();
  return CaptureJournal::Create(folder, {MakeJournalBegin(id_, selection_, request_, made_at_), {}});
}

CaptureFacts CaptureSession::Facts() const {
  return {id_,       selection_,  request_, ranks_,
          plan_,     env_.clocks, made_at_, data_ != nullptr ? data_->error() : "",
          restarted_};
}

v1::TraceFinished CaptureSession::Run(const Emit& emit) {
  SendArms();
  emit(AcceptedEvent(id_, selection_));
  Arm(emit);
  Start();
  AwaitStart(emit);
  AgreeOnStep(emit);
  Capture(emit);
  Drain(emit);
  return Close(emit);
}

void CaptureSession::Stop() {
  MutexLock lock(&mutex_);
  stopping_ = true;
  changed_.SignalAll();
}

void CaptureSession::Abandon() {
  MutexLock lock(&mutex_);
  stopping_ = true;
  abandoned_ = MonoNow();
  changed_.SignalAll();
}

v1::CaptureStatus CaptureSession::Status() const {
  MutexLock lock(&mutex_);
  v1::CaptureStatus status;
  status.set_capture(id_);
  status.set_job(selection_.job);
  status.set_phase(PhaseName(phase_));
  status.set_started_unix_ns(plan_.t0() != JobTime() ? plan_.t0().ns() : made_at_.ns());
  status.set_records(data_->records());
  for (const CaptureRank& rank : ranks_.all()) *status.add_states() = rank.state;
  return status;
}

bool CaptureSession::Holds(const std::string& node_id, const v1::ProcessKey& process) const {
  MutexLock lock(&mutex_);
  return phase_ != CapturePhase::kClosed && ranks_.Find(node_id, process) < ranks_.all().size();
}

bool CaptureSession::RunsOn(const std::string& node_id) const {
  MutexLock lock(&mutex_);
  return phase_ != CapturePhase::kClosed && !ranks_.OnNode(node_id).empty();
}

void CaptureSession::SendArms() {
  std::vector<std::pair<DaemonKey, v1::FromAggregator>> arms;
  {
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < ranks_.all().size(); ++i) Report(i);
    for (const DaemonKey& daemon : ranks_.Daemons(CaptureRanks::Of::kAll))
      arms.emplace_back(daemon, ArmMessage(id_, purpose_, request_, env_.limits, ranks_, daemon));
  }
  for (const auto& [daemon, arm] : arms) env_.daemons.Send(daemon, arm);
}

bool CaptureSession::AllArmSoon() {
  MutexLock lock(&mutex_);
  changed_.WaitFor(&mutex_, kSoon, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || ranks_.AllSettled(phase_);
  });
  return !stopping_ && std::all_of(ranks_.all().begin(), ranks_.all().end(),
                                   [](const CaptureRank& rank) { return rank.armed; });
}

void CaptureSession::Arm(const Emit& emit) {
  emit(PhaseEvent(PhaseName(CapturePhase::kArming)));
  const Nanos timeout = ArmTimeout(request_, env_.limits);
  const MonoTime until = MonoNow() + timeout;
  // The events wait, because writing thousands of them to the caller would delay the start.
  if (AllArmSoon()) return;
  WaitFor(emit, until,
          [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || ranks_.AllSettled(phase_); });
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < ranks_.all().size(); ++i) {
    if (ranks_.Settled(ranks_.at(i), phase_) || stopping_) continue;
    const std::string waits = ranks_.at(i).state.text();
    SetState(i, v1::RankState::GONE,
             absl::StrCat("did not arm within ", timeout.millis(), " ms", waits.empty() ? "" : ": ", waits));
  }
}

void CaptureSession::Start() {
  const std::vector<DaemonKey> daemons = Daemons(CaptureRanks::Of::kArmed);
  const Nanos delivery_time = DeliveryTime(daemons);
  v1::FromAggregator start;
  {
    MutexLock lock(&mutex_);
    phase_ = CapturePhase::kCapturing;
    if (stopping_ || daemons.empty()) return;
    plan_.Begin(ranks_, env_.clock.Now(), delivery_time);
    start = StartMessage(id_, plan_, ranks_);
  }
  JournalStart();
  SendAll(daemons, start);
}

void CaptureSession::AwaitStart(const Emit& emit) {
  bool triggered = false;
  Nanos ahead;
  {
    MutexLock lock(&mutex_);
    if (plan_.t0() == JobTime()) return;
    triggered = plan_.triggered();
    ahead = plan_.t0() - env_.clock.Now();
    EmitPending(emit, MonoTime());
  }
  if (ahead > kReportedDelay) {
    v1::TraceEvent event = PhaseEvent(PhaseName(CapturePhase::kStarting));
    event.mutable_progress()->set_remaining_ns(ahead.ns());
    emit(event);
    {
      MutexLock lock(&mutex_);
      phase_ = CapturePhase::kStarting;
    }
    WaitFor(emit, MonoNow() + ahead, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || ranks_.AllSettled(phase_);
    });
    MutexLock lock(&mutex_);
    phase_ = CapturePhase::kCapturing;
  }
  emit(PhaseEvent(triggered ? "waiting" : PhaseName(CapturePhase::kCapturing)));
}

void CaptureSession::AgreeOnStep(const Emit& emit) {
  MonoTime until;
  {
    MutexLock lock(&mutex_);
    if (!plan_.NeedsStep(ranks_)) return;
    until = MonoNow() + (plan_.t1() - env_.clock.Now());
  }
  WaitFor(emit, until,
          [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || ranks_.AllKnowSteps(); });
  const std::vector<DaemonKey> daemons = Daemons(CaptureRanks::Of::kArmed);
  const Nanos delivery_time = DeliveryTime(daemons);
  v1::FromAggregator start;
  {
    MutexLock lock(&mutex_);
    if (stopping_ || !plan_.ChooseStep(ranks_, env_.clock.Now(), delivery_time)) return;
    start = StartMessage(id_, plan_, ranks_);
  }
  JournalStart();
  SendAll(daemons, start);
}

void CaptureSession::Capture(const Emit& emit) {
  MonoTime until;
  {
    MutexLock lock(&mutex_);
    if (plan_.t1() == JobTime()) return;
    until = MonoNow() + (plan_.LatestEnd() - env_.clock.Now());
  }
  WaitFor(emit, until,
          [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || ranks_.AllSettled(phase_); });
}

void CaptureSession::Drain(const Emit& emit) {
  bool early = false;
  bool nothing = false;
  bool kineto = false;
  {
    MutexLock lock(&mutex_);
    phase_ = CapturePhase::kDraining;
    last_message_ = MonoNow();
    early = stopping_;
    nothing = plan_.t0() == JobTime();
    kineto = ranks_.AnyKineto();
    const bool fault = abandoned_ != MonoTime() || !data_->error().empty();
    if (early && !nothing)
      plan_.EndAt(env_.clock.Now(), fault ? StartPlan::EndedBy::kFault : StartPlan::EndedBy::kUser);
  }
  if (early && !nothing) JournalStart();
  if (early || nothing) SendStop(nothing ? StopMode::kAbort : StopMode::kKeep);
  if (nothing) return;
  emit(PhaseEvent(PhaseName(CapturePhase::kDraining)));
  const Nanos quiet = kineto ? env_.limits.kineto_quiet : env_.limits.quiet;
  WaitFor(emit, MonoNow() + (kineto ? env_.limits.kineto_drain : env_.limits.drain),
          [this, quiet]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
            const MonoTime now = MonoNow();
            return ranks_.AllSettled(phase_) || now - last_message_ > quiet ||
                   (abandoned_ != MonoTime() && now - abandoned_ > env_.limits.abandon_wait);
          });
  bool unfinished = false;
  {
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < ranks_.all().size(); ++i) {
      if (!ranks_.at(i).armed || ranks_.at(i).ended) continue;
      unfinished = true;
      if (ranks_.at(i).lost()) continue;
      SetState(i, v1::RankState::GONE,
               abandoned_ != MonoTime()
                   ? std::string("the aggregator ended before its last records arrived")
                   : absl::StrCat("its last records did not arrive: the daemon sent nothing for ",
                                  quiet.seconds(), " s"));
    }
  }
  if (unfinished) SendStop(StopMode::kAbort);
}

v1::TraceFinished CaptureSession::Close(const Emit& emit) {
  capture::Manifest manifest;
  v1::TraceFinished finished;
  {
    MutexLock lock(&mutex_);
    phase_ = CapturePhase::kClosed;
    EmitPending(emit, MonoTime());
    const std::vector<StoredRank> stored = data_->Stored();
    finished = MakeOutcome(Facts(), stored, stopping_ ? EndedBy::kStop : EndedBy::kItself);
    manifest = MakeManifest(Facts(), stored);
  }
  const absl::Status closed = data_->Close(manifest);
  if (!closed.ok()) {
    finished.set_outcome(v1::TraceFinished::FAILED);
    finished.set_text(absl::StrCat(closed.message(), "; the written records are in ", data_->folder()));
  }
  return finished;
}

void CaptureSession::WaitFor(const Emit& emit, MonoTime until, const std::function<bool()>& done) {
  MutexLock lock(&mutex_);
  while (true) {
    EmitPending(emit, until);
    if (done()) break;
    const MonoTime now = MonoNow();
    if (now >= until) break;
    if (!events_.empty()) continue;
    changed_.WaitFor(&mutex_, std::min(until - now, env_.limits.progress));
  }
  EmitPending(emit, until);
}

void CaptureSession::EmitPending(const Emit& emit, MonoTime until) {
  while (!events_.empty()) {
    const v1::TraceEvent event = std::move(events_.front());
    events_.pop_front();
    mutex_.Unlock();
    emit(event);
    mutex_.Lock();
  }
  const MonoTime now = MonoNow();
  if (until == MonoTime() || now - last_progress_ < env_.limits.progress) return;
  last_progress_ = now;
  const v1::TraceEvent event = ProgressEvent(phase_, until - now, data_->records(), ranks_);
  mutex_.Unlock();
  emit(event);
  mutex_.Lock();
}

void CaptureSession::Report(size_t i) {
  events_.push_back(RankEvent(ranks_.at(i), data_->LostRecords(i)));
  changed_.SignalAll();
}

void CaptureSession::SetState(size_t i, v1::RankState::State state, const std::string& text) {
  ranks_.SetState(i, state, text);
  Report(i);
}

std::vector<DaemonKey> CaptureSession::Daemons(CaptureRanks::Of ranks) const {
  MutexLock lock(&mutex_);
  return ranks_.Daemons(ranks);
}

Nanos CaptureSession::DeliveryTime(const std::vector<DaemonKey>& daemons) const {
  Nanos p99;
  for (const DaemonKey& daemon : daemons) p99 = std::max(p99, env_.clocks.RoundTripP99(daemon.node_id));
  return p99 * 4;
}

void CaptureSession::SendAll(const std::vector<DaemonKey>& daemons, const v1::FromAggregator& message) const {
  for (const DaemonKey& daemon : daemons) env_.daemons.Send(daemon, message);
}

void CaptureSession::SendStop(StopMode mode) {
  std::vector<DaemonKey> daemons;
  {
    MutexLock lock(&mutex_);
    stopped_ = mode;
    daemons = ranks_.Daemons(CaptureRanks::Of::kAll);
  }
  SendAll(daemons, StopMessage(id_, mode));
}

size_t CaptureSession::NoteAlive(const DaemonKey& from, const v1::ProcessKey& process) {
  last_message_ = MonoNow();
  return ranks_.Find(from.node_id, process);
}

void CaptureSession::OnStates(const DaemonKey& from, const v1::RankStates& states) {
  MutexLock lock(&mutex_);
  last_message_ = MonoNow();
  for (const v1::RankState& state : states.states()) {
    const size_t i = NoteAlive(from, state.process());
    if (i == ranks_.all().size() || phase_ == CapturePhase::kClosed) continue;
    const CaptureRanks::Change change = ranks_.Update(i, state, phase_, env_.clock.Now());
    if (change.took_over) Report(i);
    if (change.reported) Report(i);
  }
  changed_.SignalAll();
}

absl::Status CaptureSession::StopIfBroken(absl::Status stored) {
  if (!stored.ok() && !absl::IsInvalidArgument(stored)) Stop();
  return stored;
}

void CaptureSession::Sync() { StopIfBroken(data_->Sync()).IgnoreError(); }

void CaptureSession::OnClock(const std::string& node_id, const v1::ClockSamples& samples) {
  StopIfBroken(data_->AddClock(node_id, samples)).IgnoreError();
}

// ---- The journal

void CaptureSession::JournalStart() {
  v1::JournalStart start;
  {
    MutexLock lock(&mutex_);
    start = plan_.ForJournal(ranks_);
    for (size_t i = 0; i < ranks_.all().size(); ++i) *start.add_ranks() = ranks_.ForJournal(i);
  }
  StopIfBroken(data_->AddStart(std::move(start))).IgnoreError();
}

absl::StatusOr<std::unique_ptr<CaptureSession>> CaptureSession::Restore(const std::string& folder,
                                                                        const JournalContent& content,
                                                                        const SessionEnvironment& env) {
  const v1::JournalBegin& begin = content.begin;
  std::unique_ptr<CaptureSession> session(new CaptureSession(begin.capture(), Purpose::kCapture,
                                                             JournaledSelection(begin), begin.request(), env,
                                                             JobTime(begin.made_at_ns())));
  MutexLock lock(&session->mutex_);
  JournaledFiles files(session->ranks_);
  for (const v1::JournalEntry& entry : content.entries) {
    if (entry.has_stored()) files.Add(entry.stored());
  }
  auto writer = capture::RecordsWriter::Continue(folder, files.records(), files.traces());
  if (!writer.ok()) return writer.status();
  auto journal = CaptureJournal::Create(folder, content);
  if (!journal.ok()) return journal.status();
  session->data_ = std::make_unique<CaptureData>(*std::move(writer), *std::move(journal), session->selection_,
                                                 env.limits.store, env.lost);
  for (const v1::JournalEntry& entry : content.entries) session->Replay(entry);
  return session;
}

void CaptureSession::Replay(const v1::JournalEntry& entry) {
  switch (entry.entry_case()) {
    case v1::JournalEntry::kStart:
      phase_ = CapturePhase::kCapturing;
      plan_.Restore(entry.start());
      for (size_t i = 0; i < ranks_.all().size() && i < static_cast<size_t>(entry.start().ranks_size()); ++i)
        ranks_.Restore(i, entry.start().ranks(static_cast<int>(i)));
      return;
    case v1::JournalEntry::kStored:
      return Replay(entry.stored());
    case v1::JournalEntry::kHole:
      if (const size_t i = FirstRankOf(entry.hole().node_id()); i < selection_.ranks.size())
        data_->RestoreHole(i, entry.hole().batches());
      return;
    case v1::JournalEntry::kFailure:
      stopping_ = true;
      return data_->SetError(entry.failure().text());
    default:
      return;
  }
}

void CaptureSession::Replay(const v1::JournalStored& stored) {
  const v1::FromDaemon& message = stored.message();
  const size_t i = ranks_.Find(stored.node_id(), JournaledProcess(message));
  if (i == ranks_.all().size()) return;
  data_->Restore(i, stored);
  if (message.has_end()) EndRank(i, message.end());
}

bool CaptureSession::CanContinue() const {
  MutexLock lock(&mutex_);
  const Nanos quiet = ranks_.AnyKineto() ? env_.limits.kineto_quiet : env_.limits.quiet;
  return plan_.t0() != JobTime() && env_.clock.Now() <= plan_.LatestEnd() + quiet;
}

v1::TraceFinished CaptureSession::RunRestored(const Emit& emit) {
  emit(AcceptedEvent(id_, selection_));
  if (!CanContinue()) return CloseRestored(emit);
  {
    MutexLock lock(&mutex_);
    restarted_ =
        absl::StrFormat("the aggregator was restarted and resumed the capture %.1f s after its begin",
                        (env_.clock.Now() - plan_.t0()).seconds());
    for (size_t i = 0; i < ranks_.all().size(); ++i) Report(i);
    // The earlier process may have ended before it sent the stop.
    if (!plan_.triggered() && plan_.t1() < env_.clock.Now()) stopped_ = StopMode::kKeep;
  }
  AwaitStart(emit);
  AgreeOnStep(emit);
  Capture(emit);
  Drain(emit);
  return Close(emit);
}

v1::TraceFinished CaptureSession::CloseRestored(const Emit& emit) {
  bool begun = false;
  {
    MutexLock lock(&mutex_);
    begun = plan_.t0() != JobTime();
    stopping_ = stopping_ || !begun;
    restarted_ = "the aggregator was restarted, and the capture's window had passed";
    for (size_t i = 0; i < ranks_.all().size(); ++i) {
      if (ranks_.at(i).ended || ranks_.at(i).lost()) continue;
      SetState(i, v1::RankState::GONE, "the aggregator ended before its last records arrived");
    }
  }
  v1::TraceFinished finished = Close(emit);
  if (!begun)
    finished.set_text("the aggregator was restarted before the capture began: nothing was captured");
  return finished;
}

absl::Status CaptureSession::OnBatch(const DaemonKey& from, const v1::Batch& batch) {
  size_t i = 0;
  {
    MutexLock lock(&mutex_);
    i = NoteAlive(from, batch.process());
    if (i == ranks_.all().size())
      return absl::NotFoundError("the batch belongs to a process that is not in this capture");
    if (phase_ == CapturePhase::kClosed)
      return absl::FailedPreconditionError("the batch came after the capture was closed");
  }
  return StopIfBroken(data_->AddBatch(from, i, batch));
}

absl::Status CaptureSession::OnTraceFile(const DaemonKey& from, const v1::TraceFile& piece) {
  const bool profile = piece.kind() == v1::TraceFile::PYTHON_PROFILE;
  size_t i = 0;
  {
    MutexLock lock(&mutex_);
    i = NoteAlive(from, piece.process());
    const bool requested = (request_.activities() & v1::RECORDED_ACTIVITY_PYTHON_PROFILE) != 0;
    if (i == ranks_.all().size() || (profile ? !requested : !ranks_.at(i).kineto))
      return absl::NotFoundError(absl::StrCat("the ", profile ? "profile" : "trace file",
                                              " belongs to a process for which none was requested"));
    if (phase_ == CapturePhase::kClosed)
      return absl::FailedPreconditionError("the trace file came after the capture was closed");
  }
  return data_->AddPiece(from, i, piece);
}

void CaptureSession::OnGap(const DaemonKey& from, const v1::Gap& gap) {
  size_t i = 0;
  {
    MutexLock lock(&mutex_);
    i = NoteAlive(from, gap.process());
    if (i == ranks_.all().size() || phase_ == CapturePhase::kClosed) return;
  }
  // An error costs only names, which the reader of records/ counts.
  StopIfBroken(data_->AddGap(from, i, gap)).IgnoreError();
}

void CaptureSession::OnEnd(const DaemonKey& from, const v1::CaptureEnd& end) {
  size_t i = 0;
  {
    MutexLock lock(&mutex_);
    i = NoteAlive(from, end.process());
    if (i == ranks_.all().size() || phase_ == CapturePhase::kClosed) return;
  }
  StopIfBroken(data_->AddEnd(from, i, end)).IgnoreError();
  MutexLock lock(&mutex_);
  if (phase_ != CapturePhase::kClosed) EndRank(i, end);
  changed_.SignalAll();
}

void CaptureSession::EndRank(size_t i, const v1::CaptureEnd& end) {
  if (ranks_.at(i).kineto) ranks_.SetTraceBytes(i, data_->EndTrace(i));
  // A process that is known to be gone is reported again only if its end adds losses.
  if (ranks_.End(i, end) || data_->HasLosses(i)) Report(i);
}

void CaptureSession::OnHole(const DaemonKey& from, uint64_t batches) {
  const size_t i = FirstRankOf(from.node_id);
  if (i < selection_.ranks.size()) StopIfBroken(data_->AddHole(from.node_id, i, batches)).IgnoreError();
}

size_t CaptureSession::FirstRankOf(const std::string& node_id) const {
  const auto first = std::find_if(selection_.ranks.begin(), selection_.ranks.end(),
                                  [&](const SeenRank& seen) { return seen.daemon.node_id == node_id; });
  return static_cast<size_t>(first - selection_.ranks.begin());
}

void CaptureSession::OnDaemonBack(const DaemonKey& daemon) {
  // It missed the messages that were sent while it was away, or were on their way when its connection broke.
  // A daemon ignores those that it has.
  std::vector<v1::FromAggregator> again;
  {
    MutexLock lock(&mutex_);
    const auto has = [&](CaptureRanks::Of ranks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      const std::vector<DaemonKey> daemons = ranks_.Daemons(ranks);
      return std::find(daemons.begin(), daemons.end(), daemon) != daemons.end();
    };
    if (phase_ == CapturePhase::kClosed || !has(CaptureRanks::Of::kAll)) return;
    last_message_ = MonoNow();
    if (phase_ == CapturePhase::kArming)
      again.push_back(ArmMessage(id_, purpose_, request_, env_.limits, ranks_, daemon));
    if (plan_.t0() != JobTime() && has(CaptureRanks::Of::kArmed))
      again.push_back(StartMessage(id_, plan_, ranks_));
    if (stopped_) again.push_back(StopMessage(id_, *stopped_));
  }
  for (const v1::FromAggregator& message : again) env_.daemons.Send(daemon, message);
}

}  // namespace lockstep::aggregator
