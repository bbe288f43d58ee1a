// The checks of `lockstep doctor --pid` on one running process: client, injection variables, CUDA libraries,
// competing tools, and access to the daemon's socket. Reads /proc under `root` ("/" except in tests) and does
// not attach to the process.
#ifndef LOCKSTEP_CLI_DOCTOR_PROCESS_CHECKS_H_
#define LOCKSTEP_CLI_DOCTOR_PROCESS_CHECKS_H_

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/doctor/doctor_checks.h"

namespace lockstep::cli {

// A process as /proc shows it at one moment.
struct ProcessView {
  std::string proc;  // path of /proc
  int32_t pid = 0;
  std::string name;
  uid_t uid = 0;
  std::map<std::string, std::string> environment;  // at the process's start; later changes are not visible
  std::vector<std::string> mapped;                 // files, without duplicates
  std::map<std::string, std::string> status;       // /proc/<pid>/status
  // Returns an empty string if the variable is not set.
  std::string Variable(const std::string& name) const;
};

// kNotFound: the process does not exist. kPermissionDenied: it belongs to another user.
absl::StatusOr<ProcessView> ViewProcess(const std::filesystem::path& root, int32_t pid);

// Describes the process and the limits of what may be read.
Finding DescribeProcess(const ProcessView& process);
// A check that returns a vector leaves it empty if there is nothing to report.
Finding CheckClient(const ProcessView& process);
std::vector<Finding> CheckCudaLibraries(const ProcessView& process);
std::vector<Finding> CheckOtherTools(const ProcessView& process);
std::vector<Finding> CheckItsGpu(const ProcessView& process);
std::vector<Finding> CheckNamespaces(const ProcessView& process);
Finding CheckSocket(const ProcessView& process);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_DOCTOR_PROCESS_CHECKS_H_
