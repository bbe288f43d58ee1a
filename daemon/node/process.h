// Identifies processes on this node by the kernel's data in /proc.
#ifndef LOCKSTEP_DAEMON_NODE_PROCESS_H_
#define LOCKSTEP_DAEMON_NODE_PROCESS_H_

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "base/fd.h"
#include "daemon/node/host_access.h"
#include "lockstep/v1/common.pb.h"

namespace lockstep::daemon {

struct ProcessId {
  int32_t pid = 0;           // in the daemon's pid namespace
  uint64_t start_ticks = 0;  // field 22 of /proc/<pid>/stat: a reused pid differs here
  auto operator<=>(const ProcessId&) const = default;

  template <typename H>
  friend H AbslHashValue(H h, const ProcessId& id) {
    return H::combine(std::move(h), id.pid, id.start_ticks);
  }
};

inline ProcessId FromProto(const v1::ProcessKey& key) { return {key.pid(), key.start_ticks()}; }
inline void ToProto(const ProcessId& id, v1::ProcessKey* key) {
  key->set_pid(id.pid);
  key->set_start_ticks(id.start_ticks);
}

struct ProcessInfo {
  ProcessId id;
  int32_t parent_pid = 0;
  bool ended = false;  // it has exited, but its parent has not waited for it
};

// Returns nothing if the process does not exist or the kernel hides it. Any thread.
std::optional<ProcessInfo> FindProcess(const HostAccess& access, int32_t pid);

// Implemented by: ProcFs, and a table in tests. Any thread.
class ProcessTable {
 public:
  virtual ~ProcessTable() = default;
  // See FindProcess.
  virtual std::optional<ProcessInfo> Find(int32_t pid) const = 0;
  // Returns the lines of /proc/<pid>/cgroup; empty: the process does not exist or is hidden.
  virtual std::string ControlGroups(int32_t pid) const = 0;
};

// `access` outlives it.
class ProcFs final : public ProcessTable {
 public:
  explicit ProcFs(const HostAccess& access) : access_(access) {}
  std::optional<ProcessInfo> Find(int32_t pid) const override { return FindProcess(access_, pid); }
  std::string ControlGroups(int32_t pid) const override;

 private:
  const HostAccess& access_;
};

// Returns a descriptor that becomes readable when the process ends. It is invalid if the kernel does not
// support pidfds.
Fd OpenPidFd(pid_t pid);

// Parses /proc/<pid>/stat. The program's name in it may hold any character.
std::optional<ProcessInfo> ParseProcStat(const std::string& text);

// Returns the machine's boot id, or an empty string if the kernel gives none.
std::string ReadBootId();
std::string ReadHostName();

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_PROCESS_H_
