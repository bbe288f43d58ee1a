// Pieces of manual pages: roff with man(7)'s macros.
#ifndef LOCKSTEP_COMMON_SETTINGS_ROFF_H_
#define LOCKSTEP_COMMON_SETTINGS_ROFF_H_

#include <string>

#include "base/settings/option_table.h"

namespace lockstep::settings {

// Text as roff takes it, on one line.
std::string Roff(const std::string& text);
// A tagged paragraph: names, what it is, choices, default, variable.
void AddRoffOption(const OptionHelp& option, std::string& out);
// Prose is filled; what is indented, and examples, stay as they stand. "Examples:" becomes a heading.
void AddRoffText(const std::string& text, std::string& out);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_COMMON_SETTINGS_ROFF_H_
