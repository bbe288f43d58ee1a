#include "aggregator/notice/alarm_policy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::aggregator {
namespace {

constexpr Nanos kHour = Nanos::Seconds(3600);

}  // namespace

AlarmPolicy::AlarmPolicy(AlarmPolicyOptions options, RunTrace trace, Done done, AuditLog& audit)
    : options_(std::move(options)), trace_(std::move(trace)), done_(std::move(done)), audit_(audit) {}

AlarmPolicy::~AlarmPolicy() { Shutdown(); }

void AlarmPolicy::Start() {
  if (enabled()) thread_ = std::thread([this] { Run(); });
}

void AlarmPolicy::Shutdown() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

bool AlarmPolicy::HasRoom(const Alarm& alarm) const {
  const auto of_user = std::count_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
    return waiting.alarm.job.uid == alarm.job.uid;
  });
  return waiting_.size() < kMostWaiting && static_cast<size_t>(of_user) < kMostWaitingOfUser;
}

void AlarmPolicy::Add(const Alarm& alarm) {
  if (!enabled()) return;
  bool taken = false;
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
    taken = HasRoom(alarm);
    if (taken) waiting_.push_back({alarm, options_.now()});
  }
  changed_.SignalAll();
  if (taken) return;
  options_.log(LogLevel::kWarning, "alarm_dropped",
               {{"job", alarm.job.job}, {"uid", alarm.job.uid}, {"text", alarm.text}});
  if (options_.captures_per_hour > 0) done_(alarm, {.capture = "", .problem = "too many alarms wait"});
}

bool AlarmPolicy::stopping() {
  MutexLock lock(&mutex_);
  return stopping_;
}

void AlarmPolicy::Run() {
  while (true) {
    Alarm alarm;
    {
      MutexLock lock(&mutex_);
      changed_.Wait(
          &mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      alarm = std::move(waiting_.front().alarm);
      // The ranks of a hang have gone on waiting.
      if (alarm.kind == Alarm::Kind::kHang) alarm.length += options_.now() - waiting_.front().added;
      waiting_.pop_front();
    }
    Handle(alarm);
  }
}

void AlarmPolicy::Handle(const Alarm& alarm) {
  const MonoTime now = options_.now();
  std::erase_if(incidents_, [&](const auto& incident) { return now - incident.second.begun >= kIncident; });
  const auto [at, is_new] =
      incidents_.try_emplace({alarm.job, alarm.kind}, Incident{.begun = now, .capture = {}});
  if (options_.captures_per_hour > 0) {
    if (is_new) at->second.capture = Capture(alarm);
    done_(alarm, at->second.capture);
  }
  if (is_new && options_.command && !stopping()) options_.command(alarm, at->second.capture);
}

AlarmCapture AlarmPolicy::Capture(const Alarm& alarm) {
  const MonoTime now = options_.now();
  while (!captured_.empty() && now - captured_.front() >= kHour) captured_.pop_front();
  if (captured_.size() >= options_.captures_per_hour) {
    return {.capture = "",
            .problem = absl::StrCat("--alarm-captures allows ", options_.captures_per_hour,
                                    " per hour, and there were ", captured_.size())};
  }
  captured_.push_back(now);
  v1::TraceFinished finished;
  // The operation that does not end began in the past, and no step ends now.
  if (alarm.kind != Alarm::Kind::kHang) finished = CapturePresent(alarm);
  // The program may have been started without CUPTI, or another tool holds it.
  if (!HasData(finished) && !stopping()) finished = CapturePast(alarm);
  if (HasData(finished)) return {.capture = finished.capture(), .problem = ""};
  return {.capture = "", .problem = finished.text()};
}

v1::TraceFinished AlarmPolicy::CapturePresent(const Alarm& alarm) {
  v1::TraceRequest window;
  window.set_duration_ns(
      std::clamp(std::min(alarm.length, kLongest) * options_.steps, kShortest, kLongest).ns());
  return CaptureByProgram(alarm.job, alarm.text, std::move(window), trace_, audit_);
}

v1::TraceFinished AlarmPolicy::CapturePast(const Alarm& alarm) {
  v1::TraceRequest window;
  const Nanos waited = alarm.kind == Alarm::Kind::kHang ? std::min(alarm.length, kLongestPast) : Nanos();
  window.set_past_ns(std::min(waited + kPast, kLongestPast).ns());
  return CaptureByProgram(alarm.job, alarm.text, std::move(window), trace_, audit_);
}

}  // namespace lockstep::aggregator
