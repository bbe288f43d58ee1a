// TopFeed receives the samples of a job on its own thread.
#ifndef LOCKSTEP_CLI_TOP_TOP_FEED_H_
#define LOCKSTEP_CLI_TOP_TOP_FEED_H_

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/time.h"
#include "cli/common/aggregator_client.h"
#include "lockstep/v1/live.pb.h"

namespace lockstep::cli {

// A connection to an aggregator. `client` points to `remote` or into `local`.
struct TopSource {
  std::unique_ptr<LocalAggregator> local;
  std::unique_ptr<AggregatorClient> remote;
  AggregatorClient* client = nullptr;
};

class TopFeed {
 public:
  // `connect` is called on the feed's thread, and again if the aggregator ends, because another one may then
  // sample the job.
  using Connect = std::function<absl::StatusOr<TopSource>()>;
  TopFeed(Connect connect, v1::WatchRequest request, Nanos retry_after = Nanos::Millis(500));
  ~TopFeed() { Stop(); }
  TopFeed(const TopFeed&) = delete;
  TopFeed& operator=(const TopFeed&) = delete;

  // Start, Stop and Take are called by one thread.
  void Start();
  // Stops watching. Sampling ends with the last watcher.
  void Stop();
  struct Update {
    std::vector<v1::WatchEvent> events;
    // Set when no more events follow: OK if the job has ended, else the reason.
    std::optional<absl::Status> end;
  };
  Update Take();

  // Readable while Take has something to return.
  int wake_fd() const { return wake_.get(); }

 private:
  static constexpr int kMostTries = 4;

  void Run(const std::stop_token& stop);
  absl::Status WatchOnce(const std::stop_token& stop, bool& any);
  void Publish(std::optional<v1::WatchEvent> event, std::optional<absl::Status> end);

  const Connect connect_;
  const v1::WatchRequest request_;
  const Nanos retry_after_;
  const Fd wake_;
  Mutex mutex_;
  Update update_ ABSL_GUARDED_BY(mutex_);
  AggregatorClient* client_ ABSL_GUARDED_BY(mutex_) = nullptr;  // set while a call is running
  std::jthread thread_;                                         // thread: owner
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TOP_TOP_FEED_H_
