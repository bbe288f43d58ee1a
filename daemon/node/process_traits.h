// Reads properties of a process from /proc: its environment, and its pid in its own namespace.
#ifndef LOCKSTEP_DAEMON_NODE_PROCESS_TRAITS_H_
#define LOCKSTEP_DAEMON_NODE_PROCESS_TRAITS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/node/host_access.h"

namespace lockstep::daemon {

// All functions of this header: any thread; the result is empty if the file cannot be read.

// `name` is one of HostAccess::kProcFiles.
std::string ReadProcFile(const HostAccess& access, int32_t pid, std::string_view name);

// Returns the environment at the process's start as "NAME=value\n" lines. Values with a line break are left
// out.
std::string EnvironmentLines(const HostAccess& access, int32_t pid);
// Returns the value of `name` in such lines, or an empty string if it is not set.
std::string EnvironmentValue(const std::string& lines, const std::string& name);

// Returns the pid in the process's own pid namespace, or 0 if it is not known.
int32_t PidInItsNamespace(const HostAccess& access, int32_t pid);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_PROCESS_TRAITS_H_
