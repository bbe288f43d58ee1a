#include "aggregator/live/job_sampler.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lockstep::live {
namespace {

using ingest::MonoNow;

// Between two looks whether the job is still there, and whether the watcher is.
constexpr Nanos kLookEvery = Nanos::Millis(250);
// A rank that does not arm at once is shown as missing rather than waited for.
constexpr Nanos kArmTimeout = Nanos::Seconds(3);

int64_t UnixNow() { return ingest::SystemClock().Now().ns(); }

v1::WatchEvent Paused(const absl::Status& why) {
  v1::WatchEvent event;
  event.mutable_pause()->set_at_unix_ns(UnixNow());
  event.mutable_pause()->set_reason(std::string(why.message()));
  event.mutable_pause()->set_gave_way(absl::IsFailedPrecondition(why));
  return event;
}

}  // namespace

JobSampler::JobSampler(ingest::Hub& hub, const SamplersOptions& options, ingest::JobKey key)
    : hub_(hub), options_(options), key_(std::move(key)), name_(absl::StrCat(key_.uid, ":", key_.job)) {}

JobSampler::~JobSampler() { Stop(); }

uint64_t JobSampler::Join(const Pace& asked) {
  std::lock_guard<std::mutex> lock(mutex_);
  watchers_[next_ticket_] = asked;
  pace_.reset();
  // Who joins is told by Follow; the others hear of the new pace.
  if (watchers_.size() > 1) Append(PaceEvent());
  return next_ticket_++;
}

size_t JobSampler::Leave(uint64_t ticket) {
  std::lock_guard<std::mutex> lock(mutex_);
  watchers_.erase(ticket);
  pace_.reset();
  if (!watchers_.empty()) Append(PaceEvent());
  return watchers_.size();
}

void JobSampler::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void JobSampler::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  std::lock_guard<std::mutex> one(stopping_);
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

bool JobSampler::ended() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return ended_;
}

absl::Status JobSampler::Follow(ingest::WatchSink& sink) {
  std::unique_lock<std::mutex> lock(mutex_);
  v1::WatchEvent event = PaceEvent();
  uint64_t next = dropped_;
  while (true) {
    lock.unlock();
    if (!sink.Write(event)) return absl::CancelledError("the watcher left");
    if (event.has_ended()) return absl::OkStatus();
    lock.lock();
    while (next >= dropped_ + events_.size()) {
      if (stopped_) return absl::UnavailableError("the aggregator is ending");
      changed_.wait_for(lock, std::chrono::nanoseconds(kLookEvery.ns()));
      lock.unlock();
      const bool left = sink.left();
      lock.lock();
      if (left) return absl::CancelledError("the watcher left");
    }
    // Who is too slow misses the oldest.
    next = std::max(next, dropped_);
    event = events_[next++ - dropped_];
  }
}

v1::WatchEvent JobSampler::PaceEvent() const {
  std::vector<Pace> asked;
  for (const auto& watcher : watchers_) asked.push_back(watcher.second);
  v1::WatchEvent event;
  v1::SamplingPace& pace = *event.mutable_pace();
  pace.set_job(name_);
  pace.set_job_name(key_.job);
  pace.set_watchers(static_cast<uint32_t>(asked.size()));
  if (asked.empty()) return event;
  const Pace now = pace_.value_or(MostFrequent(asked));
  pace.set_every_ns(now.every.ns());
  pace.set_window_ns(now.window.ns());
  return event;
}

void JobSampler::Publish(v1::WatchEvent event) {
  std::lock_guard<std::mutex> lock(mutex_);
  Append(std::move(event));
}

void JobSampler::Append(v1::WatchEvent event) {
  // Nothing comes after the last.
  if (ended_) return;
  ended_ = event.has_ended();
  events_.push_back(std::move(event));
  if (events_.size() > kKept) {
    events_.pop_front();
    ++dropped_;
  }
  changed_.notify_all();
}

void JobSampler::Run(const std::stop_token& stop) {
  begun_ = MonoNow();
  options_.log(LogLevel::kInfo, "sampling_begins", {{"job", key_.job}, {"uid", key_.uid}});
  MonoTime due = begun_;
  while (Sleep(due, stop)) {
    const MonoTime from = MonoNow();
    TakeSample(stop);
    std::lock_guard<std::mutex> lock(mutex_);
    const v1::SamplingPace pace = PaceEvent().pace();
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
    const absl::Status there = hub_.Resolve(Request(Nanos()), ingest::Caller::All()).status();
    if (there.ok()) seen = now;
    if (there.ok() && now >= until) return true;
    if (now - seen > options_.gone_after) return false;
    std::unique_lock<std::mutex> lock(mutex_);
    const Nanos wait = there.ok() ? std::min(until - now, kLookEvery) : kLookEvery;
    changed_.wait_for(lock, std::chrono::nanoseconds(wait.ns()), [this] { return stopped_; });
  }
  return false;
}

v1::TraceRequest JobSampler::Request(Nanos window) const {
  v1::TraceRequest request;
  request.set_job(name_);
  request.set_duration_ns(window.ns());
  request.set_arm_timeout_ns(kArmTimeout.ns());
  // PyTorch's profiler needs seconds to begin and writes a file each time: nothing to do to a job again and
  // again.
  request.set_via("cupti");
  return request;
}

void JobSampler::TakeSample(const std::stop_token& stop) {
  Pace asked, now;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (watchers_.empty()) return;
    std::vector<Pace> all;
    for (const auto& watcher : watchers_) all.push_back(watcher.second);
    asked = MostFrequent(all);
    now = pace_.value_or(asked);
  }
  std::string id;
  bool given_up = false;
  const auto emit = [&](const v1::TraceEvent& event) {
    if (event.has_accepted()) id = event.accepted().capture();
    if (!stop.stop_requested() || given_up || id.empty()) return;
    given_up = true;
    hub_.Stop(id, ingest::Caller::All()).IgnoreError();
  };
  absl::StatusOr<Summary> summary = absl::UnavailableError("no rank could be captured");
  const auto after = [&](const std::string& folder, const v1::TraceFinished& finished) {
    if (stop.stop_requested()) return;
    if (finished.t0_ns() == 0 || finished.outcome() == v1::TraceFinished::FAILED ||
        finished.outcome() == v1::TraceFinished::TIMED_OUT) {
      if (!finished.text().empty()) summary = absl::UnavailableError(finished.text());
      return;
    }
    summary = options_.read(folder);
  };
  const absl::StatusOr<v1::TraceFinished> finished =
      hub_.Sample(Request(now.window), ingest::Caller::All(), emit, after);
  if (stop.stop_requested()) return;
  const absl::Status failed = !finished.ok() ? finished.status() : summary.status();
  // A job that ends amid a sample is told as ended.
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
    std::lock_guard<std::mutex> lock(mutex_);
    sample.set_number(++samples_);
    const Pace next = NextPace(asked, now, summary->steps);
    if (next != now) {
      pace_ = next;
      changed = PaceEvent();
    }
  }
  Publish(std::move(event));
  if (changed) Publish(*std::move(changed));
}

}  // namespace lockstep::live
