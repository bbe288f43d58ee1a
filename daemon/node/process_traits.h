// What /proc tells of a process besides its name: whether it uses a GPU, what its launcher told it, which pid
// it has for itself.
#ifndef LOCKSTEP_DAEMON_PROCESS_TRAITS_H_
#define LOCKSTEP_DAEMON_PROCESS_TRAITS_H_

#include <cstdint>
#include <string>

namespace lockstep::daemon {

struct ProcPlaces {
  std::string proc = "/proc";
  std::string dev = "/dev";
};

// Any thread, all of them. What cannot be read is empty.
std::string ReadProcFile(const ProcPlaces& places, int32_t pid, const char* name);

// Has it initialised CUDA? Loading the driver's library alone does not: that opens the driver's control
// device, where there is one. `maps` is its /proc/<pid>/maps.
bool CudaIsUp(const ProcPlaces& places, int32_t pid, const std::string& maps);

// Its environment as "NAME=value\n" lines, as it was started; values with a line break are left out.
std::string EnvironmentLines(const ProcPlaces& places, int32_t pid);
// One of those values; empty when unset.
std::string EnvironmentValue(const std::string& lines, const std::string& name);

// Its pid in its own pid namespace; 0 when not known.
int32_t PidInItsNamespace(const ProcPlaces& places, int32_t pid);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_PROCESS_TRAITS_H_
