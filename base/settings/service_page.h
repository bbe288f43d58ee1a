// The manual page of a program that runs as a service, made from the option table and the texts of --help.
#ifndef LOCKSTEP_COMMON_SETTINGS_SERVICE_PAGE_H_
#define LOCKSTEP_COMMON_SETTINGS_SERVICE_PAGE_H_

#include <string>

#include "CLI/CLI.hpp"
#include "base/settings/settings.h"

namespace lockstep::settings {

// roff with man(7)'s macros, for section 8.
std::string ServicePage(const CLI::App& app, const Program& program);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_COMMON_SETTINGS_SERVICE_PAGE_H_
