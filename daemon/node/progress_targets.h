// The processes of a node that a request for progress names, for their stacks or for NCCL's RAS.
#ifndef LOCKSTEP_DAEMON_NODE_PROGRESS_TARGETS_H_
#define LOCKSTEP_DAEMON_NODE_PROGRESS_TARGETS_H_

#include <algorithm>
#include <string>

#include "daemon/node/process.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::daemon {

using ProgressTargets = google::protobuf::RepeatedPtrField<v1::StackTarget>;

// True if the node's process lives and is among the targets.
inline bool IsLivingTarget(const v1::ProcessProgress& process, const std::string& node_id,
                           const ProgressTargets& targets) {
  const ProcessId id = FromProto(process.rank().process());
  return process.gone_unix_ns() == 0 &&
         std::any_of(targets.begin(), targets.end(), [&](const v1::StackTarget& target) {
           return target.node_id() == node_id && FromProto(target.process()) == id;
         });
}

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_PROGRESS_TARGETS_H_
