// Roles decide what an identified user may do.
//
//   (none)     sees their own jobs, captures and reports
//   viewer     also sees those of all users
//   operator   triggers and stops captures of their own jobs
//   admin      sees and captures every job
// Root is an admin. A user can have several roles.
#ifndef LOCKSTEP_BASE_ACCESS_ROLES_H_
#define LOCKSTEP_BASE_ACCESS_ROLES_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/access/user_directory.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace lockstep {

struct Rights {
  bool see_all = false;
  bool capture_own = false;
  bool capture_all = false;

  static Rights All() { return {true, true, true}; }
  bool operator==(const Rights&) const = default;
};

// Each entry is a user's name or number, @GROUP, or * for everybody.
struct RoleSettings {
  std::vector<std::string> viewers;
  std::vector<std::string> operators = {"*"};
  std::vector<std::string> admins;
};

// Any thread.
class Roles {
 public:
  Roles(RoleSettings settings, std::shared_ptr<const UserDirectory> users, std::shared_ptr<const Clock> clock)
      : settings_(std::move(settings)), users_(std::move(users)), clock_(std::move(clock)) {}

  // Returns the user's rights. They are kept for a minute, so a change of the system's groups takes effect
  // after that. No lock is held while the directory is read.
  Rights Of(uid_t user) const;

  // kInvalidArgument: an entry has another form.
  static absl::Status Check(const std::vector<std::string>& entries);

 private:
  struct Known {
    MonoTime at;
    Rights rights;
  };
  Rights Read(uid_t user) const;

  const RoleSettings settings_;
  const std::shared_ptr<const UserDirectory> users_;
  const std::shared_ptr<const Clock> clock_;
  mutable Mutex mutex_;
  mutable absl::flat_hash_map<uid_t, Known> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_ACCESS_ROLES_H_
