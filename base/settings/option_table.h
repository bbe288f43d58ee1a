// Lists every command and option as data, read from the parser itself. Completions and manual pages are made
// from it.
#ifndef LOCKSTEP_BASE_SETTINGS_OPTION_TABLE_H_
#define LOCKSTEP_BASE_SETTINGS_OPTION_TABLE_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace lockstep::settings {

struct OptionHelp {
  std::vector<std::string> names;    // "-o", "--output"; empty: a positional argument
  std::string positional;            // name of a positional argument
  std::string value;                 // "TEXT", "INT", "LIST"; empty: a flag
  std::vector<std::string> choices;  // the only accepted values, or items of a list; empty: any value
  std::string preset;                // default value; empty: none
  std::string variable;              // environment variable that sets it; empty: none
  std::string about;
  bool required = false;
};

struct CommandHelp {
  std::string name;  // empty: the program itself
  std::string about;
  std::string text;  // after the options: examples and details
  std::vector<OptionHelp> options;
};

// Lists the program first, then its commands in the order of --help, without the hidden ones.
std::vector<CommandHelp> OptionTable(const CLI::App& app);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_BASE_SETTINGS_OPTION_TABLE_H_
