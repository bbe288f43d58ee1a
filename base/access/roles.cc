#include "base/access/roles.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

constexpr Nanos kKept = Nanos::Seconds(60);
constexpr size_t kMostKept = 16384;
constexpr char kEverybody[] = "*";

// Names of one user, as entries may have them. The groups are read only if an entry names one.
struct Names {
  std::string number;
  std::string name;
  std::optional<std::vector<std::string>> groups;
};

bool IsIn(const std::vector<std::string>& entries, const UserDirectory& users, uid_t user, Names& names) {
  return std::any_of(entries.begin(), entries.end(), [&](const std::string& entry) {
    if (entry == kEverybody) return true;
    if (entry[0] != '@') return entry == names.number || (!names.name.empty() && entry == names.name);
    if (!names.groups) names.groups = users.GroupsOf(user);
    return std::find(names.groups->begin(), names.groups->end(), entry.substr(1)) != names.groups->end();
  });
}

}  // namespace

Rights Roles::Read(uid_t user) const {
  if (user == 0) return Rights::All();
  Names names = {absl::StrCat(user), users_->NameOf(user), std::nullopt};
  if (IsIn(settings_.admins, *users_, user, names)) return Rights::All();
  return {.see_all = IsIn(settings_.viewers, *users_, user, names),
          .capture_own = IsIn(settings_.operators, *users_, user, names)};
}

Rights Roles::Of(uid_t user) const {
  const MonoTime now = clock_->Monotonic();
  {
    MutexLock lock(&mutex_);
    const auto known = known_.find(user);
    if (known != known_.end() && now - known->second.at < kKept) return known->second.rights;
  }
  const Rights rights = Read(user);
  MutexLock lock(&mutex_);
  if (known_.size() >= kMostKept) known_.clear();
  known_.insert_or_assign(user, Known{now, rights});
  return rights;
}

absl::Status Roles::Check(const std::vector<std::string>& entries) {
  for (const std::string& entry : entries) {
    if (entry == kEverybody) continue;
    const std::string_view name = std::string_view(entry).substr(entry.starts_with('@') ? 1 : 0);
    const bool good = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return absl::ascii_isgraph(c) && c != '@' && c != ',' && c != '*';
    });
    if (!good)
      return absl::InvalidArgumentError(
          absl::StrCat("'", entry, "' is neither a user, nor @GROUP, nor * for everybody"));
  }
  return absl::OkStatus();
}

}  // namespace lockstep
