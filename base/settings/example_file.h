// The configuration file that explains itself, made from the option table that --help is made from.
#ifndef LOCKSTEP_COMMON_SETTINGS_EXAMPLE_FILE_H_
#define LOCKSTEP_COMMON_SETTINGS_EXAMPLE_FILE_H_

#include <string>

#include "CLI/CLI.hpp"
#include "base/settings/settings.h"

namespace lockstep::settings {

// Every key commented out, with its default where it has one that holds on every machine. deploy/config/
// holds the output, and a test compares.
std::string ExampleFile(const CLI::App& app, const Program& program);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_COMMON_SETTINGS_EXAMPLE_FILE_H_
