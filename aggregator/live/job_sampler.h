// JobSampler takes the samples of one job and streams them to its watchers.
#ifndef LOCKSTEP_AGGREGATOR_LIVE_JOB_SAMPLER_H_
#define LOCKSTEP_AGGREGATOR_LIVE_JOB_SAMPLER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "aggregator/captures/captures.h"
#include "aggregator/ingest/sample_source.h"
#include "aggregator/live/samplers.h"
#include "aggregator/live/sampling_schedule.h"
#include "base/mutex.h"

namespace lockstep::aggregator {

class JobSampler {
 public:
  // The sampler is inactive before Start.
  JobSampler(aggregator::Captures& captures, const SamplersOptions& options, aggregator::JobKey key);
  ~JobSampler();

  // Adds or removes a watcher with that schedule. Any thread. Leave() returns the number of
  // remaining watchers.
  uint64_t Join(const SamplingSchedule& requested);
  size_t Leave(uint64_t ticket);
  void Start();
  // Abandons a running sample. Returns when the thread has ended.
  void Stop();
  // Returns true if the job has ended. A new job of the same name gets a new sampler.
  bool ended() const;

  // Writes the kept events and then new ones, until the job has ended, the watcher leaves or sampling stops.
  absl::Status Follow(aggregator::WatchSink& sink);

 private:
  // Number of events kept for later watchers.
  static constexpr size_t kKept = 32;

  void Run(const std::stop_token& stop);
  // Returns false if the job has ended or sampling stops.
  bool Sleep(MonoTime until, const std::stop_token& stop);
  void TakeSample(const std::stop_token& stop);
  void Publish(v1::WatchEvent event);
  v1::TraceRequest Request(Nanos window) const;
  void Append(v1::WatchEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::WatchEvent ScheduleEvent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  aggregator::Captures& captures_;
  const SamplersOptions& options_;
  const aggregator::JobKey key_;
  const std::string name_;  // UID:NAME

  Mutex stopping_;  // held while the thread is started or joined
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, SamplingSchedule> watchers_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 1;
  // Schedule of the next sample; unset: as requested.
  std::optional<SamplingSchedule> schedule_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::WatchEvent> events_ ABSL_GUARDED_BY(mutex_);
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;  // events before the first of events_
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;    // the last event is in events_
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;

  // thread: the sampler's
  uint64_t samples_ = 0;
  MonoTime begun_;
  Nanos sampled_;

  std::jthread thread_ ABSL_GUARDED_BY(stopping_);
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_LIVE_JOB_SAMPLER_H_
