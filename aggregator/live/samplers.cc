#include "aggregator/live/samplers.h"

#include <utility>

#include "aggregator/live/job_sampler.h"
#include "base/rpc/status_macros.h"

namespace lockstep::aggregator {

Samplers::Samplers(aggregator::Captures& captures, SamplersOptions options)
    : captures_(captures), options_(std::move(options)) {}
Samplers::~Samplers() { Shutdown(); }

absl::Status Samplers::Watch(const v1::WatchRequest& request, const aggregator::Caller& caller,
                             aggregator::WatchSink& sink) {
  LOCKSTEP_ASSIGN_OR_RETURN(const SamplingSchedule schedule,
                            CheckSchedule(Nanos(request.every_ns()), Nanos(request.window_ns())));
  v1::TraceRequest job;
  job.set_job(request.job());
  job.set_via("cupti");
  LOCKSTEP_ASSIGN_OR_RETURN(const aggregator::Selection selection, captures_.Resolve(job, caller));
  LOCKSTEP_RETURN_IF_ERROR(aggregator::CheckVia(job, selection));
  const aggregator::JobKey key{selection.job, selection.uid};
  uint64_t ticket = 0;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::shared_ptr<JobSampler> sampler, Join(key, schedule, ticket));
  absl::Status followed = sampler->Follow(sink);
  Leave(key, sampler, ticket);
  return followed;
}

absl::StatusOr<std::shared_ptr<JobSampler>> Samplers::Join(const aggregator::JobKey& key,
                                                           const SamplingSchedule& schedule,
                                                           uint64_t& ticket) {
  MutexLock lock(&mutex_);
  if (closing_) return absl::UnavailableError("the aggregator is ending");
  std::shared_ptr<JobSampler>& sampler = jobs_[key];
  const bool first = sampler == nullptr || sampler->ended();
  if (first) sampler = std::make_shared<JobSampler>(captures_, options_, key);
  ticket = sampler->Join(schedule);
  if (first) sampler->Start();
  return sampler;
}

void Samplers::Leave(const aggregator::JobKey& key, const std::shared_ptr<JobSampler>& sampler,
                     uint64_t ticket) {
  {
    MutexLock lock(&mutex_);
    if (sampler->Leave(ticket) > 0) return;
    const auto at = jobs_.find(key);
    if (at != jobs_.end() && at->second == sampler) jobs_.erase(at);
  }
  // A watcher that joins now gets a new sampler.
  sampler->Stop();
}

void Samplers::Shutdown() {
  std::map<aggregator::JobKey, std::shared_ptr<JobSampler>> jobs;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    jobs.swap(jobs_);
  }
  for (const auto& job : jobs) job.second->Stop();
}

}  // namespace lockstep::aggregator
