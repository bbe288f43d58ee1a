// The samples of one job.
#ifndef LOCKSTEP_AGGREGATOR_LIVE_JOB_SAMPLER_H_
#define LOCKSTEP_AGGREGATOR_LIVE_JOB_SAMPLER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "aggregator/ingest/hub.h"
#include "aggregator/ingest/sample_source.h"
#include "aggregator/live/pace.h"
#include "aggregator/live/samplers.h"

namespace lockstep::live {

class JobSampler {
 public:
  // Does nothing before Start.
  JobSampler(ingest::Hub& hub, const SamplersOptions& options, ingest::JobKey key);
  ~JobSampler();

  // One more, or one less, who watches at that pace. Any thread. Leave returns how many are left.
  uint64_t Join(const Pace& asked);
  size_t Leave(uint64_t ticket);
  void Start();
  // A sample that runs is given up. Returns when the thread has ended.
  void Stop();
  // The job has; a new one of that name gets a new sampler.
  bool ended() const;

  // What is kept, and then what comes, until the job has ended, the watcher leaves or sampling is stopped.
  absl::Status Follow(ingest::WatchSink& sink);

 private:
  // Kept for who joins later.
  static constexpr size_t kKept = 32;

  void Run(const std::stop_token& stop);
  // False when the job has ended or sampling is stopped.
  bool Sleep(MonoTime until, const std::stop_token& stop);
  void TakeSample(const std::stop_token& stop);
  void Publish(v1::WatchEvent event);
  v1::TraceRequest Request(Nanos window) const;
  // The lock is held, here and below.
  void Append(v1::WatchEvent event);
  v1::WatchEvent PaceEvent() const;

  ingest::Hub& hub_;
  const SamplersOptions& options_;
  const ingest::JobKey key_;
  const std::string name_;  // UID:NAME

  std::mutex stopping_;  // held while the thread is joined
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Pace> watchers_;
  uint64_t next_ticket_ = 1;
  std::optional<Pace> pace_;  // of the next sample; unset: as asked
  std::deque<v1::WatchEvent> events_;
  uint64_t dropped_ = 0;  // events before the first of events_
  bool ended_ = false;    // the last event is there
  bool stopped_ = false;
  uint64_t samples_ = 0;

  // The thread's only.
  MonoTime begun_;
  Nanos sampled_;
  std::jthread thread_;
};

}  // namespace lockstep::live

#endif  // LOCKSTEP_AGGREGATOR_LIVE_JOB_SAMPLER_H_
