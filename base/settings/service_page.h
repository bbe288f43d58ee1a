// Writes the manual page of a service, from the option table and the texts of --help.
#ifndef LOCKSTEP_BASE_SETTINGS_SERVICE_PAGE_H_
#define LOCKSTEP_BASE_SETTINGS_SERVICE_PAGE_H_

#include <string>

#include "CLI/CLI.hpp"
#include "base/settings/settings.h"

namespace lockstep::settings {

// Returns roff with the macros of man(7), for section 8.
std::string ServicePage(const CLI::App& app, const Program& program);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_BASE_SETTINGS_SERVICE_PAGE_H_
