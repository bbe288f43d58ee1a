// Samplers takes samples of running jobs and shares them among all watchers of a job.
//
// Each watched job has one thread. It takes a short capture, has it analysed, sends the result to all
// watchers, and sleeps until the next sample. It ends with the last watcher. Only the last events are kept,
// for watchers that join later.
#ifndef LOCKSTEP_AGGREGATOR_LIVE_SAMPLERS_H_
#define LOCKSTEP_AGGREGATOR_LIVE_SAMPLERS_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aggregator/captures/captures.h"
#include "aggregator/ingest/sample_source.h"
#include "aggregator/live/sample.h"
#include "aggregator/live/sampling_schedule.h"
#include "base/log/log.h"
#include "base/mutex.h"

namespace lockstep::aggregator {

class JobSampler;

struct SamplersOptions {
  // Analyses the records in a sample's folder. `owner` is the user of the job. Any thread.
  std::function<absl::StatusOr<Summary>(const std::string& folder, uid_t owner)> read;
  // A job has ended if no daemon has reported its ranks for this time.
  Nanos gone_after = Nanos::Seconds(2);
  // Receives messages for operators. Any thread.
  LogSink log = &LogNothing;
};

// Thread-safe. `captures` must outlive it.
class Samplers final : public aggregator::SampleSource {
 public:
  Samplers(aggregator::Captures& captures, SamplersOptions options);
  ~Samplers() override;

  absl::Status Watch(const v1::WatchRequest& request, const aggregator::Caller& caller,
                     aggregator::WatchSink& sink) override;
  // Ends all sampling. Watchers receive an error, and new ones are refused.
  void Shutdown();

 private:
  // Joins the job's sampler, and creates it if the job is not watched yet.
  absl::StatusOr<std::shared_ptr<JobSampler>> Join(const aggregator::JobKey& key,
                                                   const SamplingSchedule& schedule, uint64_t& ticket);
  void Leave(const aggregator::JobKey& key, const std::shared_ptr<JobSampler>& sampler, uint64_t ticket);

  aggregator::Captures& captures_;
  const SamplersOptions options_;
  Mutex mutex_;  // held while a JobSampler's is taken
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<aggregator::JobKey, std::shared_ptr<JobSampler>> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_LIVE_SAMPLERS_H_
