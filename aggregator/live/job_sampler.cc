#include "aggregator/live/job_sampler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lockstep::aggregator {
namespace {

// Interval of checks whether the job and the watcher are still there.
constexpr Nanos kCheckInterval = Nanos::Millis(250);
// A rank that does not arm within this time is reported as missing.
constexpr Nanos kArmTimeout = Nanos::Seconds(3);

int64_t UnixNow() { return SystemJobClock().Now().ns(); }

v1::WatchEvent Paused(const absl::Status& why) {
  v1::WatchEvent event;
  event.mutable_pause()->set_at_unix_ns(UnixNow());
  event.mutable_pause()->set_reason(std::string(why.message()));
  event.mutable_pause()->set_gave_way(absl::IsFailedPrecondition(why));
  return event;
}

}  // namespace

JobSampler::JobSampler(aggregator::Captures& captures, const SamplersOptions& options, aggregator::JobKey key)
    : captures_(captures),
      options_(options),
      key_(std::move(key)),
      name_(absl::StrCat(key_.uid, ":", key_.job)) {}

JobSampler::~JobSampler() { Stop(); }

uint64_t JobSampler::Join(const SamplingSchedule& requested) {
  MutexLock lock(&mutex_);
  watchers_[next_ticket_] = requested;
  schedule_.reset();
  // Follow sends the schedule to the new watcher; the others receive it here.
  if (watchers_.size() > 1) Append(ScheduleEvent());
  return next_ticket_++;
}

size_t JobSampler::Leave(uint64_t ticket) {
  MutexLock lock(&mutex_);
  watchers_.erase(ticket);
  schedule_.reset();
  if (!watchers_.empty()) Append(ScheduleEvent());
  return watchers_.size();
}

void JobSampler::Start() {
  MutexLock one(&stopping_);
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void JobSampler::Stop() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    changed_.SignalAll();
  }
  MutexLock one(&stopping_);
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

bool JobSampler::ended() const {
  MutexLock lock(&mutex_);
  return ended_;
}

absl::Status JobSampler::Follow(aggregator::WatchSink& sink) {
  v1::WatchEvent event;
  uint64_t next = 0;
  {
    MutexLock lock(&mutex_);
    event = ScheduleEvent();
    next = dropped_;
  }
  while (true) {
    if (!sink.Write(event)) return absl::CancelledError("the watcher disconnected");
    if (event.has_ended()) return absl::OkStatus();
    MutexLock lock(&mutex_);
    while (next >= dropped_ + events_.size()) {
      if (stopped_) return absl::UnavailableError("the aggregator is ending");
      changed_.WaitFor(&mutex_, kCheckInterval);
      mutex_.Unlock();
      const bool left = sink.left();
      mutex_.Lock();
      if (left) return absl::CancelledError("the watcher disconnected");
    }
    // A slow watcher misses the oldest events.
    next = std::max(next, dropped_);
    event = events_[next++ - dropped_];
  }
}

v1::WatchEvent JobSampler::ScheduleEvent() const {
  std::vector<SamplingSchedule> requested;
  for (const auto& watcher : watchers_) requested.push_back(watcher.second);
  v1::WatchEvent event;
  v1::SamplingPace& pace = *event.mutable_pace();
  pace.set_job(name_);
  pace.set_job_name(key_.job);
  pace.set_watchers(static_cast<uint32_t>(requested.size()));
  if (requested.empty()) return event;
  const SamplingSchedule now = schedule_.value_or(MostFrequent(requested));
  pace.set_every_ns(now.every.ns());
  pace.set_window_ns(now.window.ns());
  return event;
}

void JobSampler::Publish(v1::WatchEvent event) {
  MutexLock lock(&mutex_);
  Append(std::move(event));
}

void JobSampler::Append(v1::WatchEvent event) {
  // No event follows the last one.
  if (ended_) return;
  ended_ = event.has_ended();
  events_.push_back(std::move(event));
  if (events_.size() > kKept) {
    events_.pop_front();
    ++dropped_;
  }
  changed_.SignalAll();
}

void JobSampler::Run(const std::stop_token& stop) {
  begun_ = MonoNow();
  options_.log(LogLevel::kInfo, "sampling_begins", {{"job", key_.job}, {"uid", key_.uid}});
  MonoTime due = begun_;
  while (Sleep(due, stop)) {
    const MonoTime from = MonoNow();
    TakeSample(stop);
    MutexLock lock(&mutex_);
    const v1::SamplingPace pace = ScheduleEvent().pace();
    due = std::max(from + Nanos(pace.every_ns()), MonoNow());
  }
  options_.log(LogLevel::kInfo, "sampling_ended",
               {{"job", key_.job}, {"uid", key_.uid}, {"samples", samples_}});
  if (stop.stop_requested()) return;
  v1::WatchEvent ended;
  ended.mutable_ended()->set_samples(samples_);
  Publish(std::move(ended));
}

bool JobSampler::Sleep(MonoTime until, const std::stop_token& stop) {
  MonoTime seen = MonoNow();
  while (!stop.stop_requested()) {
    const MonoTime now = MonoNow();
    const absl::Status there = captures_.Resolve(Request(Nanos()), aggregator::Caller::All()).status();
    if (there.ok()) seen = now;
    if (there.ok() && now >= until) return true;
    if (now - seen > options_.gone_after) return false;
    const Nanos wait = there.ok() ? std::min(until - now, kCheckInterval) : kCheckInterval;
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, wait, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopped_; });
  }
  return false;
}

v1::TraceRequest JobSampler::Request(Nanos window) const {
  v1::TraceRequest request;
  request.set_job(name_);
  request.set_duration_ns(window.ns());
  request.set_arm_timeout_ns(kArmTimeout.ns());
  // PyTorch's profiler needs seconds to begin and writes a file each time, so it must not run repeatedly.
  request.set_via("cupti");
  return request;
}

void JobSampler::TakeSample(const std::stop_token& stop) {
  SamplingSchedule requested, now;
  {
    MutexLock lock(&mutex_);
    if (watchers_.empty()) return;
    std::vector<SamplingSchedule> all;
    for (const auto& watcher : watchers_) all.push_back(watcher.second);
    requested = MostFrequent(all);
    now = schedule_.value_or(requested);
  }
  std::string id;
  bool given_up = false;
  const auto emit = [&](const v1::TraceEvent& event) {
    if (event.has_accepted()) id = event.accepted().capture();
    if (!stop.stop_requested() || given_up || id.empty()) return;
    given_up = true;
    captures_.Stop(id, aggregator::Caller::All()).IgnoreError();
  };
  absl::StatusOr<Summary> summary = absl::UnavailableError("no rank could be captured");
  const auto after = [&](const std::string& folder, const v1::TraceFinished& finished) {
    if (stop.stop_requested()) return;
    if (finished.t0_ns() == 0 || finished.outcome() == v1::TraceFinished::FAILED ||
        finished.outcome() == v1::TraceFinished::TIMED_OUT) {
      if (!finished.text().empty()) summary = absl::UnavailableError(finished.text());
      return;
    }
    summary = options_.read(folder, key_.uid);
  };
  const absl::StatusOr<v1::TraceFinished> finished =
      captures_.Sample(Request(now.window), aggregator::Caller::All(), emit, after);
  if (stop.stop_requested()) return;
  const absl::Status failed = !finished.ok() ? finished.status() : summary.status();
  // The job ended during the sample; Run reports its end.
  if (absl::IsNotFound(failed)) return;
  if (!failed.ok()) return Publish(Paused(failed));
  const Nanos window(finished->t1_ns() - finished->t0_ns());
  sampled_ += window;
  v1::WatchEvent event;
  v1::Sample& sample = *event.mutable_sample();
  sample = summary->sample;
  sample.set_begin_unix_ns(finished->t0_ns());
  sample.set_window_ns(window.ns());
  sample.set_sampled_ns(sampled_.ns());
  sample.set_elapsed_ns((MonoNow() - begun_).ns());
  sample.set_took_ns(UnixNow() - finished->t1_ns());
  std::optional<v1::WatchEvent> changed;
  {
    MutexLock lock(&mutex_);
    sample.set_number(++samples_);
    const SamplingSchedule next = NextSchedule(requested, now, summary->steps);
    if (next != now) {
      schedule_ = next;
      changed = ScheduleEvent();
    }
  }
  Publish(std::move(event));
  if (changed) Publish(*std::move(changed));
}

}  // namespace lockstep::aggregator
