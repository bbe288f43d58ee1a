#include "daemon/node/process_traits.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files/read_files.h"

namespace lockstep::daemon {

std::string ReadProcFile(const HostAccess& access, int32_t pid, std::string_view name) {
  InputFile file;
  file.fd = access.OpenProcFile(pid, name);
  return file.fd.ok() ? RestOf(file).value_or("") : "";
}

std::string EnvironmentLines(const HostAccess& access, int32_t pid) {
  std::string lines;
  for (const std::string& variable :
       std::vector<std::string>(absl::StrSplit(ReadProcFile(access, pid, "environ"), '\0'))) {
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

int32_t PidInItsNamespace(const HostAccess& access, int32_t pid) {
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(ReadProcFile(access, pid, "status"), '\n'))) {
    if (!absl::StartsWith(line, "NSpid:")) continue;
    const std::vector<std::string> pids = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int32_t innermost = 0;
    return absl::SimpleAtoi(pids.back(), &innermost) ? innermost : 0;
  }
  return 0;
}

}  // namespace lockstep::daemon
