// Manual pages, made from the option table and the texts of --help.
#ifndef LOCKSTEP_CLI_MAN_PAGES_H_
#define LOCKSTEP_CLI_MAN_PAGES_H_

#include <string>
#include <vector>

#include "base/settings/option_table.h"

namespace lockstep::cli {

// roff with man(7)'s macros, for section 1. `all` is listed in the page of the program itself.
std::string ManPage(const settings::CommandHelp& command, const std::vector<settings::CommandHelp>& all);
// "lockstep.1", "lockstep-trace.1".
std::string ManFileName(const settings::CommandHelp& command);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_MAN_PAGES_H_
