// RankProgress reads where the ranks of this node are in their communicators, on request. It wakes no rank.
//
// The main thread.
#ifndef LOCKSTEP_DAEMON_CLIENTS_RANK_PROGRESS_H_
#define LOCKSTEP_DAEMON_CLIENTS_RANK_PROGRESS_H_

#include <string>

#include "base/clock.h"
#include "daemon/clients/client_server.h"
#include "daemon/clients/departed_ranks.h"
#include "daemon/node/host_access.h"
#include "daemon/node/node_info.h"
#include "daemon/node/registry.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::daemon {

class RankProgress {
 public:
  // All references outlive this.
  RankProgress(const NodeInfo& node, const Registry& registry, const ClientServer& clients,
               const DepartedRanks& departed, const Clock& clock, const HostAccess& access)
      : node_(node),
        registry_(registry),
        clients_(clients),
        departed_(departed),
        clock_(clock),
        access_(access) {}

  // Returns the ranks that `filter` allows and `job` selects (base/job_name.h); empty: all jobs. Ranks that
  // have left are included, unless a new process has their place.
  v1::NodeProgress Read(const RankFilter& filter, const std::string& job) const;

 private:
  const NodeInfo& node_;
  const Registry& registry_;
  const ClientServer& clients_;
  const DepartedRanks& departed_;
  const Clock& clock_;
  const HostAccess& access_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CLIENTS_RANK_PROGRESS_H_
