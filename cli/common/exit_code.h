// Exit codes of all subcommands (docs/commands.md, "Exit codes").
#ifndef LOCKSTEP_CLI_COMMON_EXIT_CODE_H_
#define LOCKSTEP_CLI_COMMON_EXIT_CODE_H_

namespace lockstep::cli {

enum class ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,      // or unusable input
  kStraggler = 3,  // with --exit-code: a straggler with verdict sure or likely
  kHang = 3,       // `lockstep hang`: the job does not move
  kWorse = 3,      // `lockstep history trend --exit-code`: the newest change is for the worse
  kNotFound = 4,   // the job or capture does not exist
  kDenied = 5,
  kTimedOut = 6,
  kPartial = 7,  // chosen ranks are missing, or were recorded in part
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_EXIT_CODE_H_
