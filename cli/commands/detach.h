// `--no-wait`: the work goes on in a process of its own.
#ifndef LOCKSTEP_CLI_DETACH_H_
#define LOCKSTEP_CLI_DETACH_H_

#include <functional>
#include <string>

#include "cli/common/exit_code.h"

namespace lockstep::cli {

// Runs `work` in a detached process and waits until it says that it has started, with the name of its folder,
// or has ended without doing so; then its exit code is returned. What it says afterwards goes to
// `<folder>.log`, which is told. No other thread may run yet.
ExitCode Detach(
    const std::function<ExitCode(const std::function<void(const std::string& folder)>& started)>& work);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_DETACH_H_
