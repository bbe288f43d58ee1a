#include "base/access/user_directory.h"

#include <grp.h>
#include <pwd.h>

#include <cerrno>

namespace lockstep {
namespace {

constexpr size_t kFirstSize = 16u << 10;
constexpr size_t kLargestEntry = 16u << 20;  // of a group with many members

// Calls `lookup(buffer)` with larger buffers until one suffices.
template <typename Lookup>
void WithBuffer(const Lookup& lookup) {
  std::vector<char> buffer(kFirstSize);
  while (lookup(buffer) == ERANGE && buffer.size() < kLargestEntry) buffer.resize(buffer.size() * 4);
}

struct User {
  uid_t uid;
  gid_t group;
  std::string name;
};

std::optional<User> Found(const passwd* entry) {
  if (entry == nullptr) return std::nullopt;
  return User{entry->pw_uid, entry->pw_gid, entry->pw_name};
}

std::optional<User> ByUid(uid_t uid) {
  std::optional<User> user;
  WithBuffer([&](std::vector<char>& buffer) {
    passwd entry = {};
    passwd* found = nullptr;
    const int error = getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
    if (error == 0) user = Found(found);
    return error;
  });
  return user;
}

std::optional<User> ByName(const std::string& name) {
  std::optional<User> user;
  WithBuffer([&](std::vector<char>& buffer) {
    passwd entry = {};
    passwd* found = nullptr;
    const int error = getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (error == 0) user = Found(found);
    return error;
  });
  return user;
}

std::string GroupName(gid_t gid) {
  std::string name;
  WithBuffer([&](std::vector<char>& buffer) {
    group entry = {};
    group* found = nullptr;
    const int error = getgrgid_r(gid, &entry, buffer.data(), buffer.size(), &found);
    if (error == 0 && found != nullptr) name = found->gr_name;
    return error;
  });
  return name;
}

}  // namespace

std::string SystemUsers::NameOf(uid_t user) const {
  const std::optional<User> found = ByUid(user);
  return found ? found->name : "";
}

std::optional<uid_t> SystemUsers::UserOf(const std::string& name) const {
  const std::optional<User> found = ByName(name);
  return found ? std::optional(found->uid) : std::nullopt;
}

std::optional<gid_t> SystemUsers::GroupOf(uid_t user) const {
  const std::optional<User> found = ByUid(user);
  return found ? std::optional(found->group) : std::nullopt;
}

std::vector<std::string> SystemUsers::GroupsOf(uid_t user) const {
  const std::optional<User> found = ByUid(user);
  if (!found) return {};
  std::vector<gid_t> groups(64);
  auto count = static_cast<int>(groups.size());
  // On failure it sets the number that it needs.
  while (getgrouplist(found->name.c_str(), found->group, groups.data(), &count) < 0) {
    if (count <= static_cast<int>(groups.size())) return {};
    groups.resize(static_cast<size_t>(count));
  }
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    if (std::string name = GroupName(groups[static_cast<size_t>(i)]); !name.empty())
      names.push_back(std::move(name));
  }
  return names;
}

}  // namespace lockstep
