#include "aggregator/live/samplers.h"

#include <utility>

#include "aggregator/live/job_sampler.h"
#include "base/rpc/status_macros.h"

namespace lockstep::live {

Samplers::Samplers(ingest::Hub& hub, SamplersOptions options) : hub_(hub), options_(std::move(options)) {}
Samplers::~Samplers() { Shutdown(); }

absl::Status Samplers::Watch(const v1::WatchRequest& request, const ingest::Caller& caller,
                             ingest::WatchSink& sink) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Pace pace,
                            CheckPace(Nanos(request.every_ns()), Nanos(request.window_ns())));
  v1::TraceRequest job;
  job.set_job(request.job());
  job.set_via("cupti");
  LOCKSTEP_ASSIGN_OR_RETURN(const ingest::Selection selection, hub_.Resolve(job, caller));
  LOCKSTEP_RETURN_IF_ERROR(ingest::CheckVia(job, selection));
  const ingest::JobKey key{selection.job, selection.uid};
  uint64_t ticket = 0;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::shared_ptr<JobSampler> sampler, Join(key, pace, ticket));
  const absl::Status followed = sampler->Follow(sink);
  Leave(key, sampler, ticket);
  return followed;
}

absl::StatusOr<std::shared_ptr<JobSampler>> Samplers::Join(const ingest::JobKey& key, const Pace& pace,
                                                           uint64_t& ticket) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (closing_) return absl::UnavailableError("the aggregator is ending");
  std::shared_ptr<JobSampler>& sampler = jobs_[key];
  const bool first = sampler == nullptr || sampler->ended();
  if (first) sampler = std::make_shared<JobSampler>(hub_, options_, key);
  ticket = sampler->Join(pace);
  if (first) sampler->Start();
  return sampler;
}

void Samplers::Leave(const ingest::JobKey& key, const std::shared_ptr<JobSampler>& sampler, uint64_t ticket) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (sampler->Leave(ticket) > 0) return;
    const auto at = jobs_.find(key);
    if (at != jobs_.end() && at->second == sampler) jobs_.erase(at);
  }
  // Who comes now gets a new one.
  sampler->Stop();
}

void Samplers::Shutdown() {
  std::map<ingest::JobKey, std::shared_ptr<JobSampler>> jobs;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    jobs.swap(jobs_);
  }
  for (const auto& job : jobs) job.second->Stop();
}

}  // namespace lockstep::live
