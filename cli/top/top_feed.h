// The samples of a job as they come, from a thread of its own.
#ifndef LOCKSTEP_CLI_TOP_FEED_H_
#define LOCKSTEP_CLI_TOP_FEED_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/time.h"
#include "cli/common/aggregator_client.h"
#include "lockstep/v1/live.pb.h"

namespace lockstep::cli {

// An aggregator to ask, and what has to live as long as that. `client` belongs to one of the others.
struct TopSource {
  std::unique_ptr<LocalAggregator> local;
  std::unique_ptr<AggregatorClient> remote;
  AggregatorClient* client = nullptr;
};

class TopFeed {
 public:
  // `connect` is called on the feed's thread, again when an aggregator went away: another may have the job's
  // samples by then.
  using Connect = std::function<absl::StatusOr<TopSource>()>;
  TopFeed(Connect connect, v1::WatchRequest request, Nanos retry_after = Nanos::Millis(500));
  ~TopFeed() { Stop(); }
  TopFeed(const TopFeed&) = delete;
  TopFeed& operator=(const TopFeed&) = delete;

  // One thread calls these three.
  void Start();
  // Watching ends, and with the last who watches sampling.
  void Stop();
  struct News {
    std::vector<v1::WatchEvent> events;
    // Nothing more comes, and why; OK where the job has ended.
    std::optional<absl::Status> end;
  };
  News Take();

  // Readable while there is news.
  int wake_fd() const { return wake_.get(); }

 private:
  static constexpr int kMostTries = 4;

  void Run(const std::stop_token& stop);
  absl::Status WatchOnce(const std::stop_token& stop, bool& any);
  void Tell(std::optional<v1::WatchEvent> event, std::optional<absl::Status> end);

  const Connect connect_;
  const v1::WatchRequest request_;
  const Nanos retry_after_;
  Fd wake_;
  std::mutex mutex_;
  News news_;
  AggregatorClient* client_ = nullptr;  // while it is asked
  std::jthread thread_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TOP_FEED_H_
