#include "base/metrics/process_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files/read_files.h"

namespace lockstep::metrics {
namespace {

struct Stat {
  Nanos processor;
  Nanos started;  // since boot
  uint64_t virtual_bytes = 0;
  uint64_t resident_bytes = 0;
};

// Fields of proc(5), counted from the one after the program's name. The name may contain any character.
std::optional<Stat> ReadStat(const std::string& proc) {
  constexpr size_t kUserTime = 11, kSystemTime = 12, kStart = 19, kVirtualBytes = 20, kResidentPages = 21;
  const std::string text = FileText(proc + "/self/stat").value_or("");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields = absl::StrSplit(text.substr(name_end + 1), ' ', absl::SkipEmpty());
  if (fields.size() <= kResidentPages) return std::nullopt;
  uint64_t user = 0, system = 0, start = 0, pages = 0;
  Stat stat;
  if (!absl::SimpleAtoi(fields[kUserTime], &user) || !absl::SimpleAtoi(fields[kSystemTime], &system) ||
      !absl::SimpleAtoi(fields[kStart], &start) ||
      !absl::SimpleAtoi(fields[kVirtualBytes], &stat.virtual_bytes) ||
      !absl::SimpleAtoi(fields[kResidentPages], &pages)) {
    return std::nullopt;
  }
  const Nanos tick = Nanos::Seconds(1) / sysconf(_SC_CLK_TCK);
  stat.processor = tick * static_cast<int64_t>(user + system);
  stat.started = tick * static_cast<int64_t>(start);
  stat.resident_bytes = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return stat;
}

std::optional<Nanos> ReadBootTime(const std::string& proc) {
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(FileText(proc + "/stat").value_or(""), '\n'))) {
    int64_t seconds = 0;
    if (line.rfind("btime ", 0) == 0 && absl::SimpleAtoi(line.substr(6), &seconds))
      return Nanos::Seconds(seconds);
  }
  return std::nullopt;
}

std::optional<uint64_t> CountDescriptors(const std::string& proc) {
  DIR* folder = opendir((proc + "/self/fd").c_str());
  if (folder == nullptr) return std::nullopt;
  uint64_t entries = 0;
  while (readdir(folder) != nullptr) ++entries;
  closedir(folder);
  // ".", ".." and the descriptor of the folder itself do not count.
  return entries - 3;
}

}  // namespace

void AddProcessStats(const std::string& proc, Page& page) {
  const std::optional<Stat> stat = ReadStat(proc);
  const auto processor =
      page.Counter("process_cpu_seconds_total", "Processor time of the process, user and system.");
  if (stat) processor.Seconds(stat->processor);
  const auto resident = page.Gauge("process_resident_memory_bytes", "Memory of the process that is in RAM.");
  if (stat) resident.Count(stat->resident_bytes);
  const auto virtual_bytes = page.Gauge("process_virtual_memory_bytes", "Address space of the process.");
  if (stat) virtual_bytes.Count(stat->virtual_bytes);
  const auto started =
      page.Gauge("process_start_time_seconds", "Start time of the process, in seconds since 1970.");
  const std::optional<Nanos> boot = ReadBootTime(proc);
  if (stat && boot) started.Seconds(*boot + stat->started);
  const auto open = page.Gauge("process_open_fds", "File descriptors that are open.");
  if (const std::optional<uint64_t> count = CountDescriptors(proc)) open.Count(*count);
  const auto most = page.Gauge("process_max_fds", "File descriptors that may be open.");
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) most.Count(limit.rlim_cur);
}

}  // namespace lockstep::metrics
