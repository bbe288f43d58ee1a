// Writes an example configuration file with explanations, from the option table that --help also uses.
#ifndef LOCKSTEP_BASE_SETTINGS_EXAMPLE_FILE_H_
#define LOCKSTEP_BASE_SETTINGS_EXAMPLE_FILE_H_

#include <string>

#include "CLI/CLI.hpp"
#include "base/settings/settings.h"

namespace lockstep::settings {

// Every key is commented out. It shows its default if that default is the same on every machine.
// deploy/config/ has the output, and a test compares it.
std::string ExampleFile(const CLI::App& app, const Program& program);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_BASE_SETTINGS_EXAMPLE_FILE_H_
