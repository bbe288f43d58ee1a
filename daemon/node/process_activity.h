// Reads a process's state, its processor time and its place of waiting from the kernel.
#ifndef LOCKSTEP_DAEMON_NODE_PROCESS_ACTIVITY_H_
#define LOCKSTEP_DAEMON_NODE_PROCESS_ACTIVITY_H_

#include <optional>
#include <string>

#include "daemon/node/host_access.h"
#include "daemon/node/process.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::daemon {

// Parses /proc/<pid>/stat. The program's name in it may hold any character. `ticks_per_second`: sysconf's
// _SC_CLK_TCK.
std::optional<v1::ProcessState> ParseActivity(const std::string& stat, int64_t ticks_per_second);

// Returns nothing if the process has ended or its pid was reused.
std::optional<v1::ProcessState> ReadActivity(const HostAccess& access, const ProcessId& process);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_PROCESS_ACTIVITY_H_
