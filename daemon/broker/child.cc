#include "daemon/broker/child.h"

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/files/read_files.h"

namespace lockstep::daemon {

void BeginChild(int kept) {
  std::vector<int> open;
  for (const std::filesystem::directory_entry& entry : FolderEntries("/proc/self/fd")) {
    int fd = -1;
    if (absl::SimpleAtoi(entry.path().filename().string(), &fd) && fd > STDERR_FILENO && fd != kept)
      open.push_back(fd);
  }
  for (const int fd : open) close(fd);
  std::signal(SIGALRM, SIG_DFL);
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  sigprocmask(SIG_UNBLOCK, &alarm_only, nullptr);
}

}  // namespace lockstep::daemon
