// Completion scripts for shells. They call `lockstep complete -- WORD...`, which knows the words that can
// follow.
#ifndef LOCKSTEP_CLI_COMPLETION_H_
#define LOCKSTEP_CLI_COMPLETION_H_

#include <string>

namespace lockstep::cli {

// The scripts complete commands, options, their values, captures and jobs, and otherwise files. After
// `lockstep run --` they complete the user's command.
std::string BashCompletion();
std::string ZshCompletion();
std::string FishCompletion();

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMPLETION_H_
