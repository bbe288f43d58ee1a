// The view of another process on this machine, read from /proc: files in its mount namespace, users in its
// user namespace. Any thread may call these functions.
#ifndef LOCKSTEP_BASE_OTHER_PROCESS_H_
#define LOCKSTEP_BASE_OTHER_PROCESS_H_

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>

#include "base/fd.h"

namespace lockstep {

// Calls stat for an absolute path as that process sees it, and follows links within its root. `proc` is the
// path of /proc. Returns false if the file does not exist or is not accessible to us.
inline bool StatAsSeenBy(const std::string& proc, int32_t pid, const std::string& path, struct stat* found) {
  const std::string root = proc + "/" + std::to_string(pid) + "/root";
  const Fd folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.ok() || path.empty() || path[0] != '/') return false;
  // A link to an absolute path must lead into that root, not into ours.
  open_how how = {};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT;
  const Fd file(static_cast<int>(::syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof how)));
  if (file.ok()) return ::fstat(file.get(), found) == 0;
  // openat2 is missing before Linux 5.6, and some containers forbid it.
  return (errno == ENOSYS || errno == EPERM) && ::stat((root + path).c_str(), found) == 0;
}

// Returns whether this user, by its number in our namespace, exists in the user namespace of the process.
// Returns true if /proc does not show it.
inline bool MapsUser(const std::string& proc, int32_t pid, uid_t uid) {
  struct stat theirs = {};
  struct stat ours = {};
  const std::string name_space = proc + "/" + std::to_string(pid) + "/ns/user";
  // In our own namespace, uid_map would have the numbers of the parent namespace.
  if (::stat(name_space.c_str(), &theirs) == 0 && ::stat((proc + "/self/ns/user").c_str(), &ours) == 0 &&
      theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino) {
    return true;
  }
  std::ifstream map(proc + "/" + std::to_string(pid) + "/uid_map");
  bool known = false;
  for (uint64_t inside = 0, first = 0, count = 0; map >> inside >> first >> count;) {
    known = true;
    if (uid >= first && uid - first < count) return true;
  }
  return !known;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_OTHER_PROCESS_H_
