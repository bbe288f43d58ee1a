// Completions for shells, made from the option table so that they cannot fall behind it.
#ifndef LOCKSTEP_CLI_COMPLETION_H_
#define LOCKSTEP_CLI_COMPLETION_H_

#include <string>
#include <vector>

#include "base/settings/option_table.h"

namespace lockstep::cli {

// Scripts that complete commands, options, the values that an option takes where they are known, and files
// elsewhere; behind `lockstep run --` the user's command. They run nothing of ours.
std::string BashCompletion(const std::vector<settings::CommandHelp>& table);
std::string ZshCompletion(const std::vector<settings::CommandHelp>& table);
std::string FishCompletion(const std::vector<settings::CommandHelp>& table);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMPLETION_H_
