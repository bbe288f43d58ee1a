// The users and groups of the system.
#ifndef LOCKSTEP_BASE_ACCESS_USER_DIRECTORY_H_
#define LOCKSTEP_BASE_ACCESS_USER_DIRECTORY_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// SystemUsers and tests implement it. Any thread may call it. A call may take seconds, because a site's
// directory may be a server on the network.
class UserDirectory {
 public:
  virtual ~UserDirectory() = default;
  // Returns the user's name, empty if the system has none.
  virtual std::string NameOf(uid_t user) const = 0;
  // Returns the user with that name, if there is one.
  virtual std::optional<uid_t> UserOf(const std::string& name) const = 0;
  // Returns the number of the user's own group; nothing if the system does not have the user.
  virtual std::optional<gid_t> GroupOf(uid_t user) const = 0;
  // Returns the names of the user's groups.
  virtual std::vector<std::string> GroupsOf(uid_t user) const = 0;
};

// The system's name services (nsswitch.conf(5)).
class SystemUsers final : public UserDirectory {
 public:
  std::string NameOf(uid_t user) const override;
  std::optional<uid_t> UserOf(const std::string& name) const override;
  std::optional<gid_t> GroupOf(uid_t user) const override;
  std::vector<std::string> GroupsOf(uid_t user) const override;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_ACCESS_USER_DIRECTORY_H_
