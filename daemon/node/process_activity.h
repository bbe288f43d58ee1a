// Reads a process's state, its processor time, its transferred bytes and its place of waiting from the
// kernel.
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

// Parses /proc/<pid>/io. Returns how many bytes the process has read and written since its start, through
// system calls or as pages of files. Returns 0 for an empty text: the kernel shows the file only to the
// process's user and to root.
int64_t ParseTransferred(const std::string& io);

// Returns nothing if the process has ended or its pid was reused.
std::optional<v1::ProcessState> ReadActivity(const HostAccess& access, const ProcessId& process);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_PROCESS_ACTIVITY_H_
