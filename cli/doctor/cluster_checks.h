// What `lockstep doctor --cluster` finds in an aggregator's answer. Pure.
#ifndef LOCKSTEP_CLI_CLUSTER_CHECKS_H_
#define LOCKSTEP_CLI_CLUSTER_CHECKS_H_

#include <string>
#include <vector>

#include "cli/doctor/doctor_checks.h"

namespace lockstep::v1 {
class StatusReply;
}

namespace lockstep::cli {

// `version` is this program's, "0.1.0". Daemons and ranks in `reply` are those that the caller may see. One
// finding a line, each with what to do where something is to be done.
std::vector<Finding> CheckCluster(const v1::StatusReply& reply, const std::string& version);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_CHECKS_H_
