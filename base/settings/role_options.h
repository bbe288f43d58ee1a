// The options of roles, equal in all programs that have them.
#ifndef LOCKSTEP_BASE_SETTINGS_ROLE_OPTIONS_H_
#define LOCKSTEP_BASE_SETTINGS_ROLE_OPTIONS_H_

#include <vector>

#include "CLI/CLI.hpp"
#include "base/access/roles.h"
#include "base/settings/settings.h"

namespace lockstep::settings {

// Adds --operators, --viewers and --admins. `roles` must outlive the parser's last use.
void AddRoleOptions(CLI::App& app, RoleSettings& roles);
// Returns an error for each option with a malformed entry.
std::vector<Conflict> CheckRoleOptions(const RoleSettings& roles);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_BASE_SETTINGS_ROLE_OPTIONS_H_
