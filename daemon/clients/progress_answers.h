// ProgressAnswers answers requests for the progress of this node's ranks: with the progress, and with the
// stacks and NCCL's RAS where the request asks for them.
//
// The main thread.
#ifndef LOCKSTEP_DAEMON_CLIENTS_PROGRESS_ANSWERS_H_
#define LOCKSTEP_DAEMON_CLIENTS_PROGRESS_ANSWERS_H_

#include <functional>
#include <utility>

#include "daemon/clients/rank_progress.h"
#include "daemon/clients/rank_stacks.h"
#include "daemon/loop/event_loop.h"
#include "daemon/node/host_access.h"
#include "daemon/node/registry.h"
#include "daemon/ras/ras_reader.h"
#include "lockstep/v1/ingest.pb.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::daemon {

class ProgressAnswers {
 public:
  using Done = std::function<void(v1::NodeProgress)>;

  // All references outlive this. Its end waits for what is being read, some seconds at most.
  ProgressAnswers(const RankProgress& progress, const HostAccess& access, EventLoop& loop)
      : progress_(progress), stacks_(access, loop), ras_(access, loop) {}

  // Calls `done` with the ranks that `filter` allows.
  void Answer(const RankFilter& filter, const v1::ProgressRequest& request, Done done) {
    Add(progress_.Read(filter, request.job()), request.stacks(), KindsOf(request.native_stacks()),
        request.ras(), std::move(done));
  }
  void Answer(const RankFilter& filter, const v1::ReadProgress& request, Done done) {
    Add(progress_.Read(filter, request.job()), request.stacks(), KindsOf(request.native_stacks()),
        request.ras(), std::move(done));
  }

 private:
  void Add(v1::NodeProgress node, const RankStacks::Targets& stacks, StackKinds kinds,
           const RasReader::Targets& ras, Done done) {
    stacks_.AddTo(std::move(node), stacks, kinds,
                  [this, ras, done = std::move(done)](v1::NodeProgress with_stacks) mutable {
                    ras_.AddTo(std::move(with_stacks), ras, std::move(done));
                  });
  }

  const RankProgress& progress_;
  RankStacks stacks_;
  RasReader ras_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CLIENTS_PROGRESS_ANSWERS_H_
