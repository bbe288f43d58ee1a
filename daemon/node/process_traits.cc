#include "daemon/node/process_traits.h"

#include <filesystem>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files/read_files.h"

namespace lockstep::daemon {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string ReadProcFile(const ProcPlaces& places, int32_t pid, const char* name) {
  return FileText(absl::StrCat(places.proc, "/", pid, "/", name)).value_or("");
}

bool CudaIsUp(const ProcPlaces& places, int32_t pid, const std::string& maps) {
  if (!absl::StrContains(maps, "/libcuda.so")) return false;
  const std::string control = places.dev + "/nvidiactl";
  std::error_code error;
  if (!fs::exists(control, error)) return true;
  for (const fs::directory_entry& entry : FolderEntries(absl::StrCat(places.proc, "/", pid, "/fd"))) {
    std::error_code gone;
    if (fs::read_symlink(entry.path(), gone) == control) return true;
  }
  return false;
}

std::string EnvironmentLines(const ProcPlaces& places, int32_t pid) {
  std::string lines;
  for (const std::string& variable :
       std::vector<std::string>(absl::StrSplit(ReadProcFile(places, pid, "environ"), '\0'))) {
    if (absl::StrContains(variable, '\n') || !absl::StrContains(variable, '=')) continue;
    absl::StrAppend(&lines, variable, "\n");
  }
  return lines;
}

std::string EnvironmentValue(const std::string& lines, const std::string& name) {
  const std::string wanted = name + "=";
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(lines, '\n'))) {
    if (absl::StartsWith(line, wanted)) return line.substr(wanted.size());
  }
  return "";
}

int32_t PidInItsNamespace(const ProcPlaces& places, int32_t pid) {
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(ReadProcFile(places, pid, "status"), '\n'))) {
    if (!absl::StartsWith(line, "NSpid:")) continue;
    const std::vector<std::string> pids = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int32_t innermost = 0;
    return absl::SimpleAtoi(pids.back(), &innermost) ? innermost : 0;
  }
  return 0;
}

}  // namespace lockstep::daemon
