// Manual pages, generated from the option table and the texts of --help.
#ifndef LOCKSTEP_CLI_MAN_PAGES_H_
#define LOCKSTEP_CLI_MAN_PAGES_H_

#include <string>
#include <vector>

#include "base/settings/option_table.h"

namespace lockstep::cli {

// Returns roff with the macros of man(7), for section 1. The page of the program itself lists `all`.
std::string ManPage(const settings::CommandHelp& command, const std::vector<settings::CommandHelp>& all);
// Returns for example "lockstep.1" or "lockstep-trace.1".
std::string ManFileName(const settings::CommandHelp& command);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_MAN_PAGES_H_
