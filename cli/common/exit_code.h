// What the exit codes mean: README, and the same for every subcommand.
#ifndef LOCKSTEP_CLI_EXIT_CODE_H_
#define LOCKSTEP_CLI_EXIT_CODE_H_

namespace lockstep::cli {

enum class ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,      // or input that cannot be used
  kStraggler = 3,  // with --exit-code: one with verdict sure or likely
  kNotFound = 4,   // no such job or capture
  kDenied = 5,
  kTimedOut = 6,
  kPartial = 7,  // ranks are missing, and named
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_EXIT_CODE_H_
