#include "daemon/node/process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/files/read_files.h"
#include "daemon/node/process_traits.h"

namespace lockstep::daemon {
namespace {

// Positions of fields after the program's name. Position 0 is the state, field 3 of the file.
constexpr size_t kParentField = 1;
constexpr size_t kStartTicksField = 19;

}  // namespace

std::optional<ProcessInfo> ParseProcStat(const std::string& text) {
  ProcessInfo info;
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return std::nullopt;
  const std::vector<std::string> fields = absl::StrSplit(text.substr(name_end + 2), ' ');
  if (fields.size() <= kStartTicksField) return std::nullopt;
  if (!absl::SimpleAtoi(text.substr(0, text.find(' ')), &info.id.pid)) return std::nullopt;
  if (!absl::SimpleAtoi(fields[kParentField], &info.parent_pid)) return std::nullopt;
  if (!absl::SimpleAtoi(fields[kStartTicksField], &info.id.start_ticks)) return std::nullopt;
  info.ended = fields[0] == "Z" || fields[0] == "X";
  return info;
}

std::optional<ProcessInfo> FindProcess(const HostAccess& access, int32_t pid) {
  return ParseProcStat(ReadProcFile(access, pid, "stat"));
}

std::string ProcFs::ControlGroups(int32_t pid) const { return ReadProcFile(access_, pid, "cgroup"); }

Fd OpenPidFd(pid_t pid) {
#ifdef SYS_pidfd_open
  return Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
#else
  return Fd();
#endif
}

std::string ReadBootId() {
  std::string id = FileText("/proc/sys/kernel/random/boot_id").value_or("");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

std::string ReadHostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

}  // namespace lockstep::daemon
