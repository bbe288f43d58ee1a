// Implements `lockstep run --with-aggregator`: starts an aggregator beside the launcher.
#ifndef LOCKSTEP_CLI_LAUNCH_LAUNCHER_AGGREGATOR_H_
#define LOCKSTEP_CLI_LAUNCH_LAUNCHER_AGGREGATOR_H_

#include "absl/status/status.h"
#include "base/time.h"
#include "cli/common/installation.h"

namespace lockstep::cli {

// Starts lockstep-aggregator on a free TCP port with a new token file. Sets LOCKSTEP_AGGREGATOR,
// LOCKSTEP_TOKEN_FILE and LOCKSTEP_LAUNCH for the command that this process executes
// (cli/launch/job_aggregator.h). The aggregator ends with this process. The token file is in the state
// folder, which other nodes can read if home folders are shared.
absl::Status StartLauncherAggregator(const Installation& installation, Nanos ready_within);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_LAUNCH_LAUNCHER_AGGREGATOR_H_
