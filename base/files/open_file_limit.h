// Raises the number of files that the process may have open.
#ifndef LOCKSTEP_BASE_FILES_OPEN_FILE_LIMIT_H_
#define LOCKSTEP_BASE_FILES_OPEN_FILE_LIMIT_H_

#include <sys/resource.h>

namespace lockstep {

// Sets the soft limit to the hard limit, which needs no privilege. Many systems start processes with a soft
// limit of 1024. A failure leaves the limit as it was.
inline void RaiseOpenFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FILES_OPEN_FILE_LIMIT_H_
