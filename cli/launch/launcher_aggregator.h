// `lockstep run --with-aggregator`: an aggregator beside the launcher.
#ifndef LOCKSTEP_CLI_LAUNCHER_AGGREGATOR_H_
#define LOCKSTEP_CLI_LAUNCHER_AGGREGATOR_H_

#include "absl/status/status.h"
#include "base/time.h"
#include "cli/common/installation.h"

namespace lockstep::cli {

// Starts lockstep-aggregator on a free TCP port with a fresh token file, and sets LOCKSTEP_AGGREGATOR,
// LOCKSTEP_TOKEN_FILE and LOCKSTEP_LAUNCH for what this process becomes (cli/job_aggregator.h). It ends with
// this process. The token file lies under the state folder, which other nodes read where homes are shared.
absl::Status StartLauncherAggregator(const Siblings& siblings, Nanos ready_within);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_LAUNCHER_AGGREGATOR_H_
