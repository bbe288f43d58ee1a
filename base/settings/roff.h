// Writes parts of manual pages as roff with the macros of man(7).
#ifndef LOCKSTEP_BASE_SETTINGS_ROFF_H_
#define LOCKSTEP_BASE_SETTINGS_ROFF_H_

#include <string>

#include "base/settings/option_table.h"

namespace lockstep::settings {

// Escapes one line of text for roff.
std::string Roff(const std::string& text);
// Appends a tagged paragraph: names, description, choices, default, variable.
void AddRoffOption(const OptionHelp& option, std::string& out);
// Fills prose, and keeps indented lines and examples unchanged. "Examples:" becomes a heading.
void AddRoffText(const std::string& text, std::string& out);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_BASE_SETTINGS_ROFF_H_
