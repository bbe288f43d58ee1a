// RankStacks adds the stacks of ranks to an answer. It reads them on a thread of its own, because a rank's
// user can delay that.
#ifndef LOCKSTEP_DAEMON_CLIENTS_RANK_STACKS_H_
#define LOCKSTEP_DAEMON_CLIENTS_RANK_STACKS_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "base/time.h"
#include "daemon/loop/event_loop.h"
#include "daemon/loop/work_thread.h"
#include "daemon/node/host_access.h"
#include "daemon/node/progress_targets.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::daemon {

// The main thread, except for what is stated otherwise.
class RankStacks {
 public:
  using Targets = ProgressTargets;
  using Done = std::function<void(v1::NodeProgress)>;

  static constexpr size_t kMostStacks = 8;     // of one request
  static constexpr size_t kMostRequests = 16;  // that wait; one more is answered without stacks
  // After this time no further stack of a request is begun, so that the answer is in time without it.
  static constexpr Nanos kWithin = Nanos::Seconds(1);

  // Both references outlive this. Its end waits for the stacks that are being read. Requests that wait are
  // not answered.
  RankStacks(const HostAccess& access, EventLoop& loop) : access_(access), thread_(loop, kMostRequests) {}

  // Adds the stacks of those of the node's living processes that are among the targets, and calls `done` on
  // the main thread. Processes that are not in `node` are not read, so the caller sees only those.
  void AddTo(v1::NodeProgress node, const Targets& targets, StackKinds kinds, Done done);

 private:
  struct Request {
    v1::NodeProgress node;
    std::vector<int> processes;  // places in `node`
    StackKinds kinds = StackKinds::kPython;
    Done done;
  };

  void Read(Request& request) const;  // the work thread

  const HostAccess& access_;
  WorkThread thread_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CLIENTS_RANK_STACKS_H_
