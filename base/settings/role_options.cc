#include "base/settings/role_options.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace lockstep::settings {

void AddRoleOptions(CLI::App& app, RoleSettings& roles) {
  const auto add = [&app](const char* flag, std::vector<std::string>& entries, const std::string& text) {
    return app
        .add_option(flag, entries,
                    absl::StrCat(text, ": names or numbers of users, @GROUP, or *, with commas between them"))
        ->delimiter(',');
  };
  add("--operators", roles.operators, "Users who may trigger and stop captures of their own jobs")
      ->default_str("*");
  add("--viewers", roles.viewers, "Users who may also see the jobs and captures of all users");
  add("--admins", roles.admins, "Users who may see and capture every job; root always may");
}

std::vector<Conflict> CheckRoleOptions(const RoleSettings& roles) {
  std::vector<Conflict> conflicts;
  const auto check = [&](const char* key, const std::vector<std::string>& entries) {
    if (const absl::Status good = Roles::Check(entries); !good.ok())
      conflicts.push_back({Conflict::Weight::kError, {key}, std::string(good.message())});
  };
  check("operators", roles.operators);
  check("viewers", roles.viewers);
  check("admins", roles.admins);
  return conflicts;
}

}  // namespace lockstep::settings
