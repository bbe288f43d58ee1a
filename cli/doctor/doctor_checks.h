// The checks of `lockstep doctor` outside of Lockstep's own programs: driver, CUPTI, permissions, and
// competing tools. Each check reads files under `root` ("/" except in tests) and changes nothing.
#ifndef LOCKSTEP_CLI_DOCTOR_DOCTOR_CHECKS_H_
#define LOCKSTEP_CLI_DOCTOR_DOCTOR_CHECKS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

enum class Verdict { kWorks, kNote, kBroken };

// One line of the doctor's output: the state, and the remedy if there is a problem.
struct Finding {
  Verdict verdict;
  std::string text;
};

// The output of `lockstep doctor` as text and as --format json (docs/formats/doctor.md).
std::string FindingsToText(const std::vector<Finding>& findings);
std::string FindingsToJson(const std::vector<Finding>& findings);

// Returns the version of NVIDIA's kernel module ("580.65.06"), or nullopt if none is loaded.
std::optional<std::string> DriverModuleVersion(const std::filesystem::path& root);

// Checks that this user may open the GPUs' device files.
Finding CheckGpuAccess(const std::filesystem::path& root);

// Judges a CUPTI library. `version` is the number of cuptiGetVersion. `driver_cuda` is the CUDA version of
// the driver (12040 is 12.4), or 0 if there is no driver.
Finding CheckCuptiVersion(const std::string& library, uint32_t version, int driver_cuda);

// Reports whether MPS shares or MIG divides a GPU, and the effect on a report.
std::vector<Finding> CheckSharing(const std::filesystem::path& root);

// Reports running programs that occupy CUPTI or Kineto's socket, except this process.
std::vector<Finding> CheckOtherProfilers(const std::filesystem::path& root);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_DOCTOR_DOCTOR_CHECKS_H_
