#include "aggregator/captures/captures.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/random_number.h"
#include "base/rpc/status_macros.h"

namespace lockstep::aggregator {
namespace {

constexpr size_t kMostFinished = 32;  // captures that Status still shows
constexpr int64_t kLongestCaptureNs = 600'000'000'000;
constexpr int64_t kLongestPastNs = 3'600'000'000'000;

// Makes an id that sorts by time and differs even within one second.
std::string NewCaptureId(JobTime now) {
  const std::time_t seconds = now.ns() / 1'000'000'000;
  std::tm utc = {};
  ::gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &utc);
  return absl::StrFormat("%s-%06x", text, RandomNumber() >> 40);
}

absl::Status CheckLength(const v1::TraceRequest& request) {
  if (request.past_ns() != 0) {
    if (request.past_ns() > 0 && request.past_ns() <= kLongestPastNs) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "the past to capture must be positive and at most an hour: give --last, as in --last 30s");
  }
  if (request.duration_ns() > 0 && request.duration_ns() <= kLongestCaptureNs) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the duration must be positive and at most 10 minutes: give --duration, as in --duration 2s");
}

}  // namespace

bool HasData(const v1::TraceFinished& finished) {
  return finished.outcome() == v1::TraceFinished::COMPLETE ||
         finished.outcome() == v1::TraceFinished::PARTIAL;
}

const char* OutcomeName(v1::TraceFinished::Outcome outcome) {
  switch (outcome) {
    case v1::TraceFinished::COMPLETE:
      return "complete";
    case v1::TraceFinished::PARTIAL:
      return "partial";
    case v1::TraceFinished::NO_SUCH_JOB:
      return "no_such_job";
    case v1::TraceFinished::DENIED:
      return "denied";
    case v1::TraceFinished::TIMED_OUT:
      return "timed_out";
    default:
      return "failed";
  }
}

Captures::Captures(CapturesOptions options, const JobClock& clock, const DaemonRegistry& daemons,
                   const NodeClocks& clocks)
    : options_(std::move(options)), clock_(clock), daemons_(daemons), clocks_(clocks) {}

absl::StatusOr<Selection> Captures::Resolve(const v1::TraceRequest& request, const Caller& caller) const {
  std::vector<SeenRank> ranks = daemons_.Ranks();
  if (request.past_ns() != 0) ranks = RanksOfThePast(request, caller, std::move(ranks), daemons_.Departed());
  Selection selection = Select(request, caller, ranks, daemons_.counts().daemons);
  if (selection.error.empty()) return selection;
  return selection.denied ? absl::PermissionDeniedError(selection.error)
                          : absl::NotFoundError(selection.error);
}

absl::StatusOr<Captures::RunningSession> Captures::Begin(const v1::TraceRequest& request,
                                                         const Caller& caller, Purpose purpose) {
  LOCKSTEP_RETURN_IF_ERROR(CheckLength(request));
  LOCKSTEP_ASSIGN_OR_RETURN(Selection selection, Resolve(request, caller));
  LOCKSTEP_RETURN_IF_ERROR(CheckVia(request, selection));
  for (const auto& session : Sessions()) {
    // The daemons remove the ranks from a sample themselves.
    if (purpose == Purpose::kCapture && session->purpose() == Purpose::kSample) continue;
    if (session->of_the_past() != (request.past_ns() != 0)) continue;
    for (const SeenRank& s : selection.ranks) {
      if (!session->Holds(s.daemon.node_id, s.rank.process())) continue;
      return absl::FailedPreconditionError(absl::StrCat("rank ", s.rank.rank(), " of job ", selection.job,
                                                        " is being captured already (", session->id(),
                                                        "): wait until that capture has ended, or stop it"));
    }
  }
  const std::string id = NewCaptureId(clock_.Now());
  const std::string& folder = purpose == Purpose::kSample ? options_.samples_folder : options_.folder;
  auto session = CaptureSession::Create(id, absl::StrCat(folder, "/", id), purpose, std::move(selection),
                                        request, Environment());
  if (!session.ok()) return session.status();
  MutexLock lock(&mutex_);
  if (closing_) return absl::UnavailableError("the aggregator is ending");
  return sessions_[id] = {*std::move(session), std::make_shared<CaptureFeed>()};
}

absl::Status Captures::Restore(const std::string& id, const JournalContent& content) {
  if (content.begin.capture() != id)
    return absl::DataLossError(absl::StrCat("the journal is of capture ", content.begin.capture()));
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::shared_ptr<CaptureSession> session,
      CaptureSession::Restore(absl::StrCat(options_.folder, "/", id), content, Environment()));
  MutexLock lock(&mutex_);
  sessions_[id] = {std::move(session), std::make_shared<CaptureFeed>()};
  return absl::OkStatus();
}

void Captures::RestoreClosed(const std::string& id) { closed_.push_back(id); }

void Captures::RunRestored(const After& after) {
  if (!closed_.empty())
    restored_.emplace_back([this, after] {
      for (const std::string& id : closed_) {
        v1::TraceFinished finished;
        finished.set_capture(id);
        finished.set_t0_ns(1);  // it began
        const std::string folder = absl::StrCat(options_.folder, "/", id);
        after(folder, finished);
        CaptureJournal::Remove(folder);
      }
    });
  std::map<std::string, RunningSession> sessions;
  {
    MutexLock lock(&mutex_);
    sessions = sessions_;
  }
  for (const auto& entry : sessions) {
    options_.log(
        LogLevel::kWarning, "capture_restored",
        {{"capture", entry.first}, {"continues", entry.second.session->CanContinue() ? "yes" : "no"}});
    restored_.emplace_back([this, running = entry.second, after] {
      const MonoTime begun = MonoNow();
      const auto emit = [&](const v1::TraceEvent& event) { running.feed->Add(event); };
      v1::TraceFinished finished = running.session->RunRestored(emit);
      End(running, emit, after, begun, finished);
    });
  }
}

v1::TraceFinished Captures::Trace(const v1::TraceRequest& request, const Caller& caller,
                                  const CaptureSession::Emit& emit, const After& after) {
  v1::TraceFinished finished;
  finished.set_outcome(v1::TraceFinished::FAILED);
  const MonoTime begun = MonoNow();
  const JobTime received = clock_.Now();
  auto session = Begin(request, caller, Purpose::kCapture);
  if (!session.ok()) {
    if (absl::IsNotFound(session.status())) finished.set_outcome(v1::TraceFinished::NO_SUCH_JOB);
    if (absl::IsPermissionDenied(session.status())) finished.set_outcome(v1::TraceFinished::DENIED);
    finished.set_text(std::string(session.status().message()));
    MutexLock lock(&mutex_);
    ++counts_.captures[finished.outcome()];
    return finished;
  }
  const Selection& selection = session->session->selection();
  options_.log(LogLevel::kInfo, "capture_begins",
               {{"capture", session->session->id()},
                {"job", selection.job},
                {"uid", selection.uid},
                {"ranks", selection.ranks.size()},
                {"received_unix_ns", received.ns()}});
  const auto emit_to_all = [&](const v1::TraceEvent& event) {
    session->feed->Add(event);
    emit(event);
  };
  finished = session->session->Run(emit_to_all);
  End(*session, emit_to_all, after, begun, finished);
  return finished;
}

void Captures::End(const RunningSession& running, const CaptureSession::Emit& emit, const After& after,
                   MonoTime begun, v1::TraceFinished& finished) {
  const std::string& id = running.session->id();
  const Selection& selection = running.session->selection();
  const std::string folder = absl::StrCat(options_.folder, "/", id);
  v1::TraceEvent event;
  event.mutable_progress()->set_phase("analysing");
  emit(event);
  after(folder, finished);
  CaptureJournal::Remove(folder);
  options_.log(finished.outcome() == v1::TraceFinished::COMPLETE ? LogLevel::kInfo : LogLevel::kWarning,
               "capture_ended",
               {{"capture", id},
                {"job", selection.job},
                {"outcome", OutcomeName(finished.outcome())},
                {"text", finished.text()}});
  v1::CaptureStatus status = running.session->Status();
  status.set_outcome(finished.outcome());
  status.set_text(finished.text());
  *event.mutable_finished() = finished;
  running.feed->Add(event);
  MutexLock lock(&mutex_);
  sessions_.erase(id);
  ++counts_.captures[finished.outcome()];
  counts_.took.Observe(MonoNow() - begun);
  finished_.push_back({selection.uid, status, running.feed});
  if (finished_.size() > kMostFinished) finished_.pop_front();
  changed_.SignalAll();
}

absl::StatusOr<v1::TraceFinished> Captures::Sample(const v1::TraceRequest& request, const Caller& caller,
                                                   const CaptureSession::Emit& emit, const After& after) {
  LOCKSTEP_ASSIGN_OR_RETURN(const RunningSession running, Begin(request, caller, Purpose::kSample));
  const std::shared_ptr<CaptureSession>& session = running.session;
  const std::string folder = absl::StrCat(options_.samples_folder, "/", session->id());
  std::string taken;
  v1::TraceFinished finished = session->Run([&](const v1::TraceEvent& event) {
    // Part of a job gives no result, so the whole sample ends.
    if (event.rank().state().refusal() == v1::RankState::CAPTURED && taken.empty()) {
      taken = absl::StrCat("rank ", event.rank().rank(), ": ", event.rank().state().text());
      session->Abandon();
    }
    emit(event);
  });
  if (taken.empty()) after(folder, finished);
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error)
    options_.log(LogLevel::kWarning, "sample_not_removed", {{"folder", folder}, {"reason", error.message()}});
  {
    MutexLock lock(&mutex_);
    sessions_.erase(session->id());
    ++counts_.samples[finished.outcome()];
    changed_.SignalAll();
  }
  if (!taken.empty()) return absl::FailedPreconditionError(taken);
  return finished;
}

absl::Status Captures::Stop(const std::string& capture, const Caller& caller) {
  const auto session = Find(capture);
  if (session == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("no capture ", capture, " runs here; `lockstep status` lists those that do"));
  }
  LOCKSTEP_RETURN_IF_ERROR(caller.CheckCapture(absl::StrCat("capture ", capture),
                                               {session->selection().job, session->selection().uid}));
  session->Stop();
  return absl::OkStatus();
}

std::shared_ptr<CaptureSession> Captures::Find(const std::string& capture) const {
  MutexLock lock(&mutex_);
  const auto it = sessions_.find(capture);
  return it != sessions_.end() ? it->second.session : nullptr;
}

absl::Status Captures::Follow(const std::string& capture, const Caller& caller,
                              const std::function<bool(const v1::TraceEvent&)>& write) const {
  std::shared_ptr<CaptureFeed> feed;
  OwnedJob job;
  {
    MutexLock lock(&mutex_);
    if (const auto running = sessions_.find(capture); running != sessions_.end()) {
      feed = running->second.feed;
      const Selection& selection = running->second.session->selection();
      job = {selection.job, selection.uid};
    }
    for (const FinishedCapture& finished : finished_) {
      if (finished.status.capture() != capture) continue;
      feed = finished.feed;
      job = {finished.status.job(), finished.uid};
    }
  }
  if (feed == nullptr) return absl::NotFoundError(absl::StrCat("no capture ", capture, " runs here"));
  LOCKSTEP_RETURN_IF_ERROR(caller.CheckSee(absl::StrCat("capture ", capture), job));
  return feed->Follow(write) ? absl::OkStatus() : absl::CancelledError("the caller has left");
}

void Captures::StopUnlessFollowed(const std::string& capture, MonoTime since) {
  RunningSession running;
  {
    MutexLock lock(&mutex_);
    const auto it = sessions_.find(capture);
    if (it == sessions_.end()) return;
    running = it->second;
  }
  if (running.feed->WithoutFollower(since, MonoNow()) >= options_.limits.caller_wait) running.session->Stop();
}

std::vector<std::shared_ptr<CaptureSession>> Captures::Sessions() const {
  MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<CaptureSession>> out;
  for (const auto& [id, running] : sessions_) out.push_back(running.session);
  return out;
}

void Captures::OnDaemonBack(const DaemonKey& daemon) {
  for (const auto& session : Sessions()) session->OnDaemonBack(daemon);
}

void Captures::OnClock(const std::string& node_id, const v1::ClockSamples& samples) {
  for (const auto& session : Sessions()) {
    if (session->RunsOn(node_id)) session->OnClock(node_id, samples);
  }
}

void Captures::Sync() {
  for (const auto& session : Sessions()) session->Sync();
}

v1::RunningCaptures Captures::RunningOnNode(const std::string& node_id) const {
  v1::RunningCaptures running;
  for (const auto& session : Sessions()) {
    if (session->RunsOn(node_id)) running.add_captures(session->id());
  }
  return running;
}

void Captures::AddTo(v1::StatusReply& reply, const std::string& job, const Caller& caller) const {
  const auto shown = [&](const std::string& name, uid_t owner) {
    return caller.MaySee({name, owner}) && (job.empty() || name == job);
  };
  // Read first, so that no capture is missing that ends meanwhile.
  const std::vector<std::shared_ptr<CaptureSession>> sessions = Sessions();
  {
    MutexLock lock(&mutex_);
    for (const FinishedCapture& capture : finished_) {
      if (shown(capture.status.job(), capture.uid)) *reply.add_captures() = capture.status;
    }
  }
  for (const auto& session : sessions) {
    if (session->purpose() == Purpose::kSample) continue;
    if (shown(session->selection().job, session->selection().uid)) *reply.add_captures() = session->Status();
  }
}

std::vector<RunningCapture> Captures::Running() const {
  std::vector<RunningCapture> out;
  for (const auto& session : Sessions()) {
    if (session->purpose() == Purpose::kSample) continue;
    const Selection& selection = session->selection();
    out.push_back({session->Status(), selection.uid, selection.world_size, selection.missing_ranks.size()});
  }
  return out;
}

bool Captures::IsWriting(const std::string& capture) const {
  const auto session = Find(capture);
  return session != nullptr && session->Status().phase() != PhaseName(CapturePhase::kClosed);
}

CaptureCounts Captures::counts() const {
  MutexLock lock(&mutex_);
  CaptureCounts counts = counts_;
  counts.running = static_cast<size_t>(std::count_if(sessions_.begin(), sessions_.end(), [](const auto& s) {
    return s.second.session->purpose() == Purpose::kCapture;
  }));
  return counts;
}

void Captures::Shutdown() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
  }
  for (const auto& session : Sessions()) session->Abandon();
  // The captures' own threads drain and close them. The wait is bounded, because a daemon may be dead.
  MutexLock lock(&mutex_);
  changed_.WaitFor(&mutex_, options_.limits.abandon_wait + Nanos::Seconds(5),
                   [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return sessions_.empty(); });
}

void Captures::WaitForRestored() {
  for (std::thread& thread : restored_) thread.join();
  restored_.clear();
}

}  // namespace lockstep::aggregator
