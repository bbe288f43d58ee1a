// Reads the program's arguments. Nothing is run here.
#ifndef LOCKSTEP_CLI_ARGUMENTS_H_
#define LOCKSTEP_CLI_ARGUMENTS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/common/command.h"

namespace lockstep::cli {

// Adds the subcommands of the program to `app`. `chosen` outlives `app`.
void AddCommands(CLI::App& app, Chosen& chosen);

// Parses the words after the program's name into `chosen`. Returns 0, or the exit code after a message on
// stderr. After --help and similar options it returns 0 and `chosen` has no action.
int ParseArguments(CLI::App& app, std::vector<std::string> words, Chosen& chosen);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_ARGUMENTS_H_
