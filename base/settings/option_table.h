// Every command and option as data, taken from the parser itself: what completions and manual pages are made
// from.
#ifndef LOCKSTEP_COMMON_SETTINGS_OPTION_TABLE_H_
#define LOCKSTEP_COMMON_SETTINGS_OPTION_TABLE_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace lockstep::settings {

struct OptionHelp {
  std::vector<std::string> names;    // "-o", "--output"; empty: a positional one
  std::string positional;            // its name
  std::string value;                 // "TEXT", "INT"; empty: a flag
  std::vector<std::string> choices;  // where only these are taken
  std::string preset;                // what it is where it is not given; empty: nothing
  std::string variable;              // environment variable that gives it; empty: none
  std::string about;
  bool required = false;
};

struct CommandHelp {
  std::string name;  // empty: the program itself
  std::string about;
  std::string text;  // below the options: examples and details
  std::vector<OptionHelp> options;
};

// The program first, then its commands in the order of --help.
std::vector<CommandHelp> OptionTable(const CLI::App& app);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_COMMON_SETTINGS_OPTION_TABLE_H_
