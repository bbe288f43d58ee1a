#include "cli/doctor/doctor_checks.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/files/read_files.h"
#include "base/json/json_string.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

std::string FirstLine(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

struct Running {
  std::string name;  // as the kernel truncates it: 15 characters
  std::string pid;
};

std::vector<Running> RunningPrograms(const fs::path& root) {
  std::vector<Running> out;
  for (const fs::directory_entry& entry : FolderEntries(root / "proc")) {
    const std::string pid = entry.path().filename().string();
    if (!std::all_of(pid.begin(), pid.end(), absl::ascii_isdigit)) continue;
    const std::string name = FirstLine(entry.path() / "comm");
    if (!name.empty()) out.push_back({name, pid});
  }
  return out;
}

std::string PidsOf(const std::vector<Running>& running, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const Running& program : running) {
    if (std::find(names.begin(), names.end(), program.name) != names.end())
      found.push_back(absl::StrCat(program.name, " (pid ", program.pid, ")"));
  }
  return absl::StrJoin(found, ", ");
}

bool IsVersion(const std::string& word) {
  return absl::StrContains(word, '.') &&
         std::all_of(word.begin(), word.end(), [](char c) { return absl::ascii_isdigit(c) || c == '.'; });
}

std::string CuptiVersionText(uint32_t version) {
  if (version >= 100000)
    return absl::StrFormat("%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
  return absl::StrCat("API version ", version);
}

// cuptiGetVersion returns 1 to 28 up to CUDA 12.9 Update 1, and later numbers such as 130000 for 13.0.
int CudaMajorOf(uint32_t version) {
  if (version >= 100000) return static_cast<int>(version / 10000);
  return version >= 19 ? 12 : 11;
}

const char* VerdictName(Verdict verdict) {
  return verdict == Verdict::kWorks ? "ok" : verdict == Verdict::kNote ? "note" : "broken";
}

}  // namespace

std::string FindingsToText(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& finding : findings)
    absl::StrAppendFormat(&out, "%-6s  %s\n", VerdictName(finding.verdict), finding.text);
  return out;
}

std::string FindingsToJson(const std::vector<Finding>& findings) {
  return absl::StrCat(
      "{\"schema\": \"lockstep.doctor/1\",\n \"findings\": [",
      absl::StrJoin(findings, ",\n  ",
                    [](std::string* out, const Finding& finding) {
                      const size_t colon = finding.text.find(": ");
                      absl::StrAppend(
                          out, "{\"verdict\": \"", VerdictName(finding.verdict),
                          "\", \"about\": ", JsonQuoted(finding.text.substr(0, colon)), ", \"text\": ",
                          JsonQuoted(colon == std::string::npos ? "" : finding.text.substr(colon + 2)), "}");
                    }),
      "]}\n");
}

std::optional<std::string> DriverModuleVersion(const fs::path& root) {
  std::istringstream words(FirstLine(root / "proc/driver/nvidia/version"));
  for (std::string word; words >> word;) {
    if (IsVersion(word)) return word;
  }
  return std::nullopt;
}

Finding CheckGpuAccess(const fs::path& root) {
  const fs::path control = root / "dev/nvidiactl";
  const std::optional<std::string> driver = DriverModuleVersion(root);
  const std::string version = driver ? absl::StrCat(", driver ", *driver) : "";
  if (::access(control.c_str(), F_OK) != 0) {
    if (driver) {
      return {Verdict::kBroken,
              absl::StrCat(
                  "GPU: the driver is loaded", version,
                  " but /dev/nvidiactl is missing: in a container, request the GPUs (--gpus all, --nv)")};
    }
    return {Verdict::kNote,
            "GPU: none on this machine; captures work on simulated ranks, and analyze works everywhere"};
  }
  if (::access(control.c_str(), R_OK | W_OK) != 0) {
    return {Verdict::kBroken, absl::StrCat("GPU: /dev/nvidiactl exists", version,
                                           " but access is denied: request access to it")};
  }
  return {Verdict::kWorks, absl::StrCat("GPU: /dev/nvidiactl is accessible", version)};
}

Finding CheckCuptiVersion(const std::string& library, uint32_t version, int driver_cuda) {
  constexpr uint32_t kDeadlocks = 130000;
  constexpr uint32_t kDriverLaunches = 23;  // CUDA 12.5
  const std::string name = absl::StrCat("CUPTI: ", library, ", ", CuptiVersionText(version));
  if (version == kDeadlocks) {
    return {Verdict::kBroken,
            absl::StrCat(name,
                         ": it deadlocks when kernel records are disabled; use CUDA 13.0 Update 1 or later")};
  }
  if (driver_cuda > 0 && CudaMajorOf(version) > driver_cuda / 1000) {
    return {Verdict::kBroken,
            absl::StrFormat("%s: the driver is for CUDA %d.%d, which is older; install a newer driver, or "
                            "set LOCKSTEP_CUPTI_LIB to a "
                            "CUPTI of CUDA %d",
                            name, driver_cuda / 1000, driver_cuda % 1000 / 10, driver_cuda / 1000)};
  }
  if (version < kDriverLaunches) {
    return {Verdict::kNote, absl::StrCat(name,
                                         ": before 12.5 the launches of NCCL's kernels cannot be recorded, "
                                         "so collectives are matched by order")};
  }
  return {Verdict::kWorks, name};
}

std::vector<Finding> CheckSharing(const fs::path& root) {
  std::vector<Finding> out;
  const std::string mps =
      PidsOf(RunningPrograms(root),
             {"nvidia-cuda-mps", "nvidia-cuda-mps-", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"});
  if (!mps.empty()) {
    out.push_back(
        {Verdict::kNote,
         absl::StrCat(
             "MPS: ", mps,
             ": ranks that share a GPU run at the same time, so their kernels take longer than alone")});
  }
  std::vector<std::string> cut;
  for (const fs::directory_entry& gpu : FolderEntries(root / "proc/driver/nvidia/capabilities")) {
    std::error_code none;
    const fs::path instances = gpu.path() / "mig";
    if (!absl::StartsWith(gpu.path().filename().string(), "gpu") || !fs::is_directory(instances, none))
      continue;
    for (const fs::directory_entry& instance : FolderEntries(instances)) {
      if (absl::StartsWith(instance.path().filename().string(), "gi")) {
        cut.push_back(gpu.path().filename().string());
        break;
      }
    }
  }
  std::sort(cut.begin(), cut.end());
  if (!cut.empty()) {
    out.push_back({Verdict::kNote, absl::StrCat("MIG: ", absl::StrJoin(cut, ", "),
                                                " split into instances: a rank has one of them, and its "
                                                "kernels compare only with those of equal instances")});
  }
  return out;
}

std::vector<Finding> CheckOtherProfilers(const fs::path& root) {
  std::vector<Finding> out;
  const std::vector<Running> running = RunningPrograms(root);
  const std::string profilers =
      PidsOf(running, {"nsys", "nsys-launcher", "ncu", "nv-nsight-cu-cl", "compute-sanitiz", "cuda-gdb"});
  if (!profilers.empty()) {
    out.push_back(
        {Verdict::kNote, absl::StrCat("profilers: ", profilers,
                                      ": a process they follow cannot be captured at the same time")});
  }
  const std::string dcgm = PidsOf(running, {"nv-hostengine", "dcgm-exporter"});
  if (!dcgm.empty()) {
    out.push_back(
        {Verdict::kNote,
         absl::StrCat("DCGM: ", dcgm,
                      ": it may hold the GPU's counters for profiling metrics; captures do not need them")});
  }
  const std::string dynolog = PidsOf(running, {"dynolog"});
  if (!dynolog.empty()) {
    out.push_back(
        {Verdict::kNote,
         absl::StrCat(
             "dynolog: ", dynolog,
             ": it owns the default socket of PyTorch jobs; jobs under `lockstep run` use Lockstep's")});
  }
  return out;
}

}  // namespace lockstep::cli
