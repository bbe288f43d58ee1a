// ProgressRequests asks the connected daemons where their ranks are in their communicators, and collects the
// answers.
//
// Thread-safe. Calls wait in Ask; the daemons' streams deliver answers.
#ifndef LOCKSTEP_AGGREGATOR_NODES_PROGRESS_REQUESTS_H_
#define LOCKSTEP_AGGREGATOR_NODES_PROGRESS_REQUESTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "aggregator/nodes/daemon_registry.h"
#include "aggregator/nodes/seen_rank.h"
#include "base/mutex.h"
#include "base/time.h"
#include "lockstep/v1/ingest.pb.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::aggregator {

class ProgressRequests {
 public:
  // `daemons` outlives this.
  explicit ProgressRequests(const DaemonRegistry& daemons) : daemons_(daemons) {}

  // Returns the answers that came within `at_most`, and the hosts of the daemons that did not answer.
  // `asked` names the processes whose stacks are wanted.
  v1::ProgressReply Ask(const v1::ProgressRequest& asked, Nanos at_most);
  // An answer to a call that has returned is discarded.
  void OnAnswer(const DaemonKey& daemon, const v1::ProgressAnswer& answer);
  // Waiting calls return with the answers so far.
  void Stop();

 private:
  struct Open {
    std::map<DaemonKey, std::string> awaited;  // with the hosts' names
    v1::ProgressReply reply;
  };

  const DaemonRegistry& daemons_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, Open> open_ ABSL_GUARDED_BY(mutex_);  // by request
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NODES_PROGRESS_REQUESTS_H_
