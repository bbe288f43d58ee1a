// Checks an aggregator's answer for `lockstep doctor --cluster`. Pure functions.
#ifndef LOCKSTEP_CLI_DOCTOR_CLUSTER_CHECKS_H_
#define LOCKSTEP_CLI_DOCTOR_CLUSTER_CHECKS_H_

#include <string>
#include <vector>

#include "cli/doctor/doctor_checks.h"

namespace lockstep::v1 {
class StatusReply;
}

namespace lockstep::cli {

// `version` is this program's version, for example "0.1.0". `reply` contains the daemons and ranks that the
// caller may see. Returns one finding per line, with the remedy if there is a problem.
std::vector<Finding> CheckCluster(const v1::StatusReply& reply, const std::string& version);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_DOCTOR_CLUSTER_CHECKS_H_
