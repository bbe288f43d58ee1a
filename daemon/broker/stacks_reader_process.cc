#include "daemon/broker/stacks_reader_process.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "daemon/broker/child.h"
#include "daemon/broker/privileges.h"
#include "daemon/node/own_access.h"
#include "daemon/stacks/process_stacks.h"

namespace lockstep::daemon {
namespace {

constexpr unsigned kSeconds = 1;

v1::ProcessStacks ReadAsOwner(int32_t pid, uint64_t start_ticks, StackKinds kinds) {
  const absl::StatusOr<OpenedMemory> opened = OwnAccess().OpenMemory(pid, start_ticks);
  if (!opened.ok()) return StacksWithProblem(std::string(opened.status().message()), kinds);
  const ProcessStacksReader reader(pid, *opened->memory, kinds);
  if (!BecomeUser(opened->uid, opened->gid)) _exit(1);
  // As in RunUserProcess, for the libraries in /proc/<pid>/root.
  if (!(opened->uid == 0 ? DropCapabilities({CAP_SYS_PTRACE}) : DropCapabilities({}))) _exit(1);
  // The kernel forgets this setting at a change of the user.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return reader.Read(opened->maps);
}

}  // namespace

void RunStacksReader(int pipe, int32_t pid, uint64_t start_ticks, StackKinds kinds) {
  BeginChild(pipe);
  alarm(kSeconds);
  const std::string bytes = ReadAsOwner(pid, start_ticks, kinds).SerializeAsString();
  for (size_t written = 0; written < bytes.size();) {
    const ssize_t size = write(pipe, bytes.data() + written, bytes.size() - written);
    if (size <= 0) _exit(1);
    written += static_cast<size_t>(size);
  }
  _exit(0);
}

}  // namespace lockstep::daemon
