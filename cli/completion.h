// Completion scripts for shells, generated from the option table so that they stay up to date.
#ifndef LOCKSTEP_CLI_COMPLETION_H_
#define LOCKSTEP_CLI_COMPLETION_H_

#include <string>
#include <vector>

#include "base/settings/option_table.h"

namespace lockstep::cli {

// The scripts complete commands, options, the known values of an option, and otherwise files. After `lockstep
// run --` they complete the user's command. They do not run any program of ours.
std::string BashCompletion(const std::vector<settings::CommandHelp>& table);
std::string ZshCompletion(const std::vector<settings::CommandHelp>& table);
std::string FishCompletion(const std::vector<settings::CommandHelp>& table);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMPLETION_H_
