// What `lockstep doctor --pid` looks at in one running process: is the client in it, by which variable, which
// CUDA libraries has it, who else is in the way, and does it see the daemon's socket. Reads /proc under
// `root` ("/" but in tests), attaches to nothing.
#ifndef LOCKSTEP_CLI_PROCESS_CHECKS_H_
#define LOCKSTEP_CLI_PROCESS_CHECKS_H_

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/doctor/doctor_checks.h"

namespace lockstep::cli {

// As /proc shows it at one moment.
struct ProcessView {
  std::string proc;  // where /proc is
  int32_t pid = 0;
  std::string name;
  uid_t uid = 0;
  std::map<std::string, std::string> environment;  // as it was started; what it changed since is not seen
  std::vector<std::string> mapped;                 // files, each once
  std::map<std::string, std::string> status;       // /proc/<pid>/status
  // Empty when it is not set.
  std::string Variable(const std::string& name) const;
};

// kNotFound: no such process. kPermissionDenied: it is another user's.
absl::StatusOr<ProcessView> ViewProcess(const std::filesystem::path& root, int32_t pid);

// Who it is, and what may be read of it.
Finding Introduce(const ProcessView& process);
// Each says nothing where there is nothing to say.
Finding CheckClient(const ProcessView& process);
std::vector<Finding> CheckCudaLibraries(const ProcessView& process);
std::vector<Finding> CheckOtherTools(const ProcessView& process);
std::vector<Finding> CheckItsGpu(const ProcessView& process);
std::vector<Finding> CheckNamespaces(const ProcessView& process);
Finding CheckSocket(const ProcessView& process);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_PROCESS_CHECKS_H_
