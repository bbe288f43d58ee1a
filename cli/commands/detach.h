// Implements `--no-wait`: the work continues in a separate process.
#ifndef LOCKSTEP_CLI_COMMANDS_DETACH_H_
#define LOCKSTEP_CLI_COMMANDS_DETACH_H_

#include <functional>
#include <string>

#include "cli/common/exit_code.h"

namespace lockstep::cli {

// Runs `work` in a detached process. Returns kDone once `work` has called `started` with the name of its
// folder, or the exit code if `work` ended before that. Later output goes to `<folder>.log`, which a message
// names. The caller must not have started other threads.
ExitCode Detach(
    const std::function<ExitCode(const std::function<void(const std::string& folder)>& started)>& work);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMANDS_DETACH_H_
