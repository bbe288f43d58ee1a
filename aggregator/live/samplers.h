// Samples of running jobs, shared by all who watch them.
//
// One thread per job that somebody watches: it takes a short capture, has it analysed, tells everybody, and
// sleeps until the next one is due. With the last watcher it ends. Nothing is kept but the last samples, for
// who joins later.
#ifndef LOCKSTEP_AGGREGATOR_LIVE_SAMPLERS_H_
#define LOCKSTEP_AGGREGATOR_LIVE_SAMPLERS_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aggregator/ingest/hub.h"
#include "aggregator/ingest/sample_source.h"
#include "aggregator/live/pace.h"
#include "aggregator/live/sample.h"
#include "base/log/log.h"

namespace lockstep::live {

class JobSampler;

struct SamplersOptions {
  // What makes a sample of a capture's folder; ReadSample but in tests.
  std::function<absl::StatusOr<Summary>(const std::string& folder)> read = ReadSample;
  // A job whose ranks nobody has seen for so long has ended.
  Nanos gone_after = Nanos::Seconds(2);
  // What an operator wants to know; any thread.
  LogSink log = &LogNothing;
};

// Any thread. `hub` must outlive it.
class Samplers final : public ingest::SampleSource {
 public:
  Samplers(ingest::Hub& hub, SamplersOptions options);
  ~Samplers() override;

  absl::Status Watch(const v1::WatchRequest& request, const ingest::Caller& caller,
                     ingest::WatchSink& sink) override;
  // Ends all sampling; who watches is told, and who comes is refused.
  void Shutdown();

 private:
  // The job's, made where nobody watches it yet.
  absl::StatusOr<std::shared_ptr<JobSampler>> Join(const ingest::JobKey& key, const Pace& pace,
                                                   uint64_t& ticket);
  void Leave(const ingest::JobKey& key, const std::shared_ptr<JobSampler>& sampler, uint64_t ticket);

  ingest::Hub& hub_;
  const SamplersOptions options_;
  std::mutex mutex_;
  bool closing_ = false;
  std::map<ingest::JobKey, std::shared_ptr<JobSampler>> jobs_;
};

}  // namespace lockstep::live

#endif  // LOCKSTEP_AGGREGATOR_LIVE_SAMPLERS_H_
