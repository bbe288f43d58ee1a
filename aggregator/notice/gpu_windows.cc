#include "aggregator/notice/gpu_windows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rpc/status_macros.h"

namespace lockstep::aggregator {
namespace {

constexpr Nanos kShortestWindow = Nanos::Millis(100), kLongestWindow = Nanos::Seconds(10);
constexpr Nanos kShortestPeriod = Nanos::Seconds(10), kLongestPeriod = Nanos::Seconds(24 * 3600);
// A job is recorded for at most this part of its time.
constexpr int64_t kSmallestRatio = 10;
// Interval of checks whether recorded jobs run.
constexpr Nanos kCheckInterval = Nanos::Seconds(1);
constexpr Nanos kWithoutRecordings = Nanos::Seconds(3600);

absl::Status Check(const v1::RecordRequest& request) {
  const Nanos window = Nanos(request.window_ns());
  const Nanos period = Nanos(request.period_ns());
  if (window < kShortestWindow || window > kLongestWindow)
    return absl::InvalidArgumentError("a window has 100ms to 10s, as in --gpu 1s/60s");
  if (period < kShortestPeriod || period > kLongestPeriod)
    return absl::InvalidArgumentError("windows begin each 10s to 1440m, as in --gpu 1s/60s");
  if (period / kSmallestRatio < window)
    return absl::InvalidArgumentError("windows are at most a tenth of the time, as in --gpu 1s/60s");
  if (request.keep() == 0) return absl::InvalidArgumentError("at least one capture is kept, as in --keep 30");
  return absl::OkStatus();
}

std::string NameOf(const AuditCaller& caller) {
  return absl::StrCat(caller.by, caller.uid ? absl::StrCat(", user ", *caller.uid) : "");
}

}  // namespace

GpuWindows::GpuWindows(const JobClock& clock, AuditLog& audit, GpuWindowsOptions options)
    : clock_(clock), audit_(audit), options_(std::move(options)) {}

GpuWindows::~GpuWindows() { Shutdown(); }

void GpuWindows::Start() {
  {
    MutexLock lock(&mutex_);
    running_ = true;
  }
  thread_ = std::thread([this] { Run(); });
}

void GpuWindows::Shutdown() {
  {
    MutexLock lock(&mutex_);
    running_ = false;
  }
  changed_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

bool GpuWindows::running() {
  MutexLock lock(&mutex_);
  return running_;
}

absl::StatusOr<v1::JobRecording> GpuWindows::Record(const v1::RecordRequest& request, const Caller& caller) {
  if (!running())
    return absl::FailedPreconditionError(
        "only an aggregator that runs permanently records: give --aggregator");
  return request.window_ns() == 0 ? End(request, caller) : Begin(request, caller);
}

absl::Status GpuWindows::CheckRoom(const JobKey& job, uint32_t keep) const {
  size_t all = 0, of_user = 0, kept = keep;
  for (const auto& [other, recording] : recordings_) {
    if (other == job) continue;
    ++all;
    of_user += other.uid == job.uid;
    kept += recording.state.keep();
  }
  if (all >= kMostRecordings || of_user >= kMostOfUser)
    return absl::ResourceExhaustedError(
        absl::StrCat(all >= kMostRecordings ? kMostRecordings : kMostOfUser, " jobs ",
                     all >= kMostRecordings ? "" : "of the user ",
                     "are recorded, which is the limit: end one with `lockstep record off --job`"));
  if (kept > options_.most_kept)
    return absl::ResourceExhaustedError(absl::StrCat(
        "all recordings together may keep ", options_.most_kept,
        " captures here, which is half of the aggregator's --keep-captures: give a smaller --keep"));
  return absl::OkStatus();
}

// The ranks of a job that has ended do not tell its other names any more.
bool GpuWindows::IsNamed(const std::string& name, const std::set<JobKey>& named, const JobKey& job,
                         const Recording& recording) {
  return name.empty() || name == job.job || name == absl::StrCat(job.uid, ":", job.job) ||
         name == recording.asked || named.contains(job);
}

absl::StatusOr<v1::JobRecording> GpuWindows::Begin(const v1::RecordRequest& request, const Caller& caller) {
  LOCKSTEP_RETURN_IF_ERROR(Check(request));
  LOCKSTEP_ASSIGN_OR_RETURN(const JobKey job, options_.resolve(request.job(), caller));
  MutexLock lock(&mutex_);
  LOCKSTEP_RETURN_IF_ERROR(CheckRoom(job, request.keep()));
  Recording& recording = recordings_[job];
  recording.generation = ++generation_;
  recording.next = recording.seen = options_.now();
  recording.by = caller.who();
  recording.asked = request.job();
  v1::JobRecording& state = recording.state;
  state.set_job(job.job);
  state.set_uid(job.uid);
  state.set_window_ns(request.window_ns());
  state.set_period_ns(request.period_ns());
  state.set_keep(request.keep());
  if (state.since_unix_ns() == 0) state.set_since_unix_ns(clock_.Now().ns());
  woken_ = true;
  changed_.SignalAll();
  return state;
}

absl::StatusOr<v1::JobRecording> GpuWindows::End(const v1::RecordRequest& request, const Caller& caller) {
  const std::set<JobKey> named = options_.named(request.job());
  MutexLock lock(&mutex_);
  std::vector<JobKey> found;
  absl::Status denied;
  for (const auto& [job, recording] : recordings_) {
    if (!IsNamed(request.job(), named, job, recording)) continue;
    const OwnedJob owned = {job.job, job.uid};
    if (caller.MayCapture(owned))
      found.push_back(job);
    else if (caller.MaySee(owned) && !request.job().empty())
      denied = caller.CheckCapture(absl::StrCat("job ", job.job), owned);
  }
  if (found.empty() && !denied.ok()) return denied;
  if (found.empty())
    return absl::NotFoundError(request.job().empty()
                                   ? "no job is recorded"
                                   : absl::StrCat("job ", request.job(), " is not recorded"));
  if (found.size() > 1)
    return absl::InvalidArgumentError(absl::StrCat(found.size(),
                                                   " such jobs are recorded: name one, as in --job ",
                                                   found.front().uid, ":", found.front().job));
  const auto recording = recordings_.find(found.front());
  v1::JobRecording state = std::move(recording->second.state);
  recordings_.erase(recording);
  return state;
}

void GpuWindows::Run() {
  while (running()) {
    Nanos wait;
    if (const std::optional<JobKey> job = Due(&wait)) {
      MakeWindow(*job);
      continue;
    }
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, wait,
                     [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !running_ || woken_; });
    woken_ = false;
  }
}

std::optional<JobKey> GpuWindows::Due(Nanos* wait) {
  {
    MutexLock lock(&mutex_);
    *wait = recordings_.empty() ? kWithoutRecordings : kCheckInterval;
    if (recordings_.empty()) return std::nullopt;
  }
  // A process that ends between both calls is seen once more.
  const MonoTime now = options_.now();
  const std::set<JobKey> running = options_.running();
  std::vector<JobKey> ended;
  std::optional<JobKey> due;
  {
    MutexLock lock(&mutex_);
    MonoTime first = now;
    for (auto recording = recordings_.begin(); recording != recordings_.end();) {
      Recording& one = recording->second;
      const bool runs = running.contains(recording->first);
      if (runs) one.seen = std::max(one.seen, now);
      if (now - one.seen > kForget) {
        ended.push_back(recording->first);
        recording = recordings_.erase(recording);
        continue;
      }
      if (runs && one.next <= first) {
        first = one.next;
        due = recording->first;
      }
      if (one.next > now) *wait = std::min(*wait, one.next - now);
      ++recording;
    }
  }
  for (const JobKey& job : ended)
    options_.log(LogLevel::kInfo, "recording_ended", {{"job", job.job}, {"uid", job.uid}});
  return due;
}

void GpuWindows::MakeWindow(const JobKey& job) {
  Recording copy;
  {
    MutexLock lock(&mutex_);
    const auto recording = recordings_.find(job);
    if (recording == recordings_.end()) return;
    copy = recording->second;
  }
  v1::TraceRequest window;
  window.set_duration_ns(copy.state.window_ns());
  const v1::TraceFinished finished =
      CaptureByProgram(job, absl::StrCat("lockstep record on, by ", NameOf(copy.by)), std::move(window),
                       options_.trace, audit_);
  Note(job, copy.generation, finished);
  options_.tidy();
  ForgetRemoved();
}

void GpuWindows::Note(const JobKey& job, uint64_t generation, const v1::TraceFinished& finished) {
  MutexLock lock(&mutex_);
  const auto found = recordings_.find(job);
  if (found == recordings_.end()) return;
  Recording& recording = found->second;
  v1::JobRecording& state = recording.state;
  // Record may have changed it meanwhile, and then wants a window at once.
  if (recording.generation == generation) {
    const Nanos period = Nanos(state.period_ns());
    const int64_t passed = std::max<int64_t>((options_.now() - recording.next).ns() / period.ns(), 0);
    recording.next = recording.next + period * (passed + 1);
  }
  state.set_windows(state.windows() + 1);
  if (HasData(finished)) {
    state.add_captures(finished.capture());
    state.clear_problem();
  } else {
    state.set_failed(state.failed() + 1);
    state.set_problem(finished.text());
    if (!finished.capture().empty()) recording.surplus.push_back(finished.capture());
  }
  const int more = std::max(state.captures_size() - static_cast<int>(state.keep()), 0);
  recording.surplus.insert(recording.surplus.end(), state.captures().begin(),
                           state.captures().begin() + more);
  state.mutable_captures()->DeleteSubrange(0, more);
}

void GpuWindows::ForgetRemoved() {
  MutexLock lock(&mutex_);
  const auto removed = [this](const std::string& capture) { return !options_.stored(capture); };
  for (auto& [job, recording] : recordings_) {
    std::erase_if(recording.surplus, removed);
    auto& captures = *recording.state.mutable_captures();
    captures.erase(std::remove_if(captures.begin(), captures.end(), removed), captures.end());
  }
}

std::set<std::string> GpuWindows::Surplus() const {
  MutexLock lock(&mutex_);
  std::set<std::string> surplus;
  for (const auto& [job, recording] : recordings_)
    surplus.insert(recording.surplus.begin(), recording.surplus.end());
  return surplus;
}

void GpuWindows::AddTo(v1::StatusReply& reply, const std::string& job, const Caller& caller) const {
  const std::set<JobKey> named = options_.named(job);
  MutexLock lock(&mutex_);
  for (const auto& [key, recording] : recordings_) {
    if (!caller.MaySee({key.job, key.uid})) continue;
    if (IsNamed(job, named, key, recording)) *reply.add_recordings() = recording.state;
  }
}

}  // namespace lockstep::aggregator
