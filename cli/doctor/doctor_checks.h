// What `lockstep doctor` looks at, apart from Lockstep's own programs: driver, CUPTI, permissions, and who
// else may be in the way. Each check reads files under `root` ("/" but in tests) and changes nothing.
#ifndef LOCKSTEP_CLI_DOCTOR_CHECKS_H_
#define LOCKSTEP_CLI_DOCTOR_CHECKS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

enum class Verdict { kWorks, kNote, kBroken };

// One line of the doctor's answer: what it is, and where something is wrong what to do.
struct Finding {
  Verdict verdict;
  std::string text;
};

// What `lockstep doctor` prints, and its --format json: docs/formats/doctor.md.
std::string FindingsToText(const std::vector<Finding>& findings);
std::string FindingsToJson(const std::vector<Finding>& findings);

// The NVIDIA kernel module's version ("580.65.06"), nullopt where none is loaded.
std::optional<std::string> DriverModuleVersion(const std::filesystem::path& root);

// May this user open the GPUs' device files?
Finding CheckGpuAccess(const std::filesystem::path& root);

// Of a CUPTI library that was found: `version` as cuptiGetVersion counts, `driver_cuda` the CUDA version of
// the driver (12040 is 12.4), 0 where there is none.
Finding JudgeCupti(const std::string& library, uint32_t version, int driver_cuda);

// MPS and MIG share or cut a GPU: what that does to a report.
std::vector<Finding> CheckSharing(const std::filesystem::path& root);

// Running programs that take CUPTI, or Kineto's socket, for themselves. `self`: this process is not one of
// them.
std::vector<Finding> CheckRivals(const std::filesystem::path& root);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_DOCTOR_CHECKS_H_
