#include "aggregator/live/slowdown_captures.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aggregator/live/slowdown_text.h"

namespace lockstep::aggregator {
namespace {

constexpr Nanos kHour = Nanos::Seconds(3600);

bool HasData(const v1::TraceFinished& finished) {
  return finished.outcome() == v1::TraceFinished::COMPLETE ||
         finished.outcome() == v1::TraceFinished::PARTIAL;
}

}  // namespace

SlowdownCaptures::SlowdownCaptures(SlowdownCapturesOptions options, Trace trace, Done done, AuditLog& audit)
    : options_(std::move(options)), trace_(std::move(trace)), done_(std::move(done)), audit_(audit) {}

SlowdownCaptures::~SlowdownCaptures() { Shutdown(); }

void SlowdownCaptures::Start() {
  if (options_.per_hour > 0) thread_ = std::thread([this] { Run(); });
}

void SlowdownCaptures::Shutdown() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

void SlowdownCaptures::Add(const NewSlowdown& slowdown) {
  if (options_.per_hour == 0) return;
  bool taken = false;
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
    taken = waiting_.size() < kMostWaiting;
    if (taken) waiting_.push_back(slowdown);
  }
  if (taken) {
    changed_.SignalAll();
  } else {
    done_(slowdown.id, "", "too many slowdowns wait for a capture");
  }
}

bool SlowdownCaptures::stopping() {
  MutexLock lock(&mutex_);
  return stopping_;
}

std::string SlowdownCaptures::Refusal(const NewSlowdown& slowdown, std::string* capture) {
  const MonoTime now = options_.now();
  while (!begun_.empty() && now - begun_.front() >= kHour) begun_.pop_front();
  std::erase_if(last_, [&](const auto& last) { return now - last.second.at >= kPause; });
  if (const auto last = last_.find(slowdown.job); last != last_.end()) {
    *capture = last->second.capture;
    return "a capture for another slowdown of the job failed a few minutes before";
  }
  if (begun_.size() >= options_.per_hour) {
    return absl::StrCat("--slowdown-captures allows ", options_.per_hour, " per hour, and there were ",
                        begun_.size());
  }
  begun_.push_back(now);
  last_[slowdown.job] = {now, ""};
  return "";
}

void SlowdownCaptures::Run() {
  while (true) {
    NewSlowdown slowdown;
    std::string refusal, capture;
    {
      MutexLock lock(&mutex_);
      changed_.Wait(
          &mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      slowdown = std::move(waiting_.front());
      waiting_.pop_front();
      refusal = Refusal(slowdown, &capture);
    }
    if (!refusal.empty()) {
      done_(slowdown.id, capture, capture.empty() ? refusal : "");
      continue;
    }
    const v1::TraceFinished finished = Capture(slowdown);
    if (HasData(finished)) capture = finished.capture();
    {
      MutexLock lock(&mutex_);
      last_[slowdown.job].capture = capture;
    }
    done_(slowdown.id, capture, capture.empty() ? finished.text() : "");
  }
}

v1::TraceFinished SlowdownCaptures::Capture(const NewSlowdown& slowdown) {
  v1::TraceRequest request;
  request.set_job(slowdown.job.job);
  request.set_via("auto");
  request.set_activities(v1::RECORDED_ACTIVITIES_USUAL);
  const Nanos steps = Nanos(slowdown.slowdown.step_now_ns()) * options_.steps;
  request.set_duration_ns(std::clamp(steps, kShortest, kLongest).ns());
  v1::TraceFinished finished = Audited(slowdown, request);
  if (HasData(finished) || stopping()) return finished;
  // The program may have been started without CUPTI, or another tool holds it.
  request.clear_duration_ns();
  request.set_past_ns(kPast.ns());
  return Audited(slowdown, request);
}

v1::TraceFinished SlowdownCaptures::Audited(const NewSlowdown& slowdown, const v1::TraceRequest& request) {
  AuditCaller who;
  who.by = "program";
  const JobKey& job = slowdown.job;
  const Caller caller = Caller::OfJob({job.job, job.uid}, {.capture_own = true}).KnownAs(who);
  AuditLog::Call audited = audit_.Begin("trace", who,
                                        {{"job", job.job},
                                         {"job_uid", job.uid},
                                         {"because", SlowdownText(slowdown.slowdown)},
                                         {"duration_ns", request.duration_ns()},
                                         {"past_ns", request.past_ns()}});
  std::string capture, captured_job;
  int ranks = 0;
  v1::TraceFinished finished = trace_(request, caller, [&](const v1::TraceEvent& event) {
    if (!event.has_accepted()) return;
    capture = event.accepted().capture();
    captured_job = event.accepted().job();
    ranks = event.accepted().ranks_size();
  });
  audited.End(OutcomeName(finished.outcome()), finished.text(),
              {{"capture", capture}, {"captured_job", captured_job}, {"captured_ranks", ranks}});
  return finished;
}

}  // namespace lockstep::aggregator
