// Reads properties of a process from /proc: whether it uses a GPU, its environment, and its pid in its own
// namespace.
#ifndef LOCKSTEP_DAEMON_NODE_PROCESS_TRAITS_H_
#define LOCKSTEP_DAEMON_NODE_PROCESS_TRAITS_H_

#include <cstdint>
#include <string>

namespace lockstep::daemon {

struct ProcPlaces {
  std::string proc = "/proc";
  std::string dev = "/dev";
};

// All functions of this header: any thread; the result is empty if the file cannot be read.
std::string ReadProcFile(const ProcPlaces& places, int32_t pid, const char* name);

// Returns true if the process has initialised CUDA. Loading the driver's library is not enough: only
// initialisation opens the driver's control device. If this machine lacks that device, the library counts.
// `maps` is /proc/<pid>/maps.
bool CudaIsUp(const ProcPlaces& places, int32_t pid, const std::string& maps);

// Returns the environment at the process's start as "NAME=value\n" lines. Values with a line break are left
// out.
std::string EnvironmentLines(const ProcPlaces& places, int32_t pid);
// Returns the value of `name` in such lines, or an empty string if it is not set.
std::string EnvironmentValue(const std::string& lines, const std::string& name);

// Returns the pid in the process's own pid namespace, or 0 if it is not known.
int32_t PidInItsNamespace(const ProcPlaces& places, int32_t pid);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_PROCESS_TRAITS_H_
