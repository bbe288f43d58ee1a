#include "daemon/node/process_activity.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/log/clean_text.h"
#include "daemon/node/process_traits.h"

namespace lockstep::daemon {
namespace {

// Positions of fields after the program's name. Position 0 is the state, field 3 of the file.
constexpr size_t kUserTicksField = 11, kSystemTicksField = 12;
constexpr size_t kLongestChannel = 64;

}  // namespace

std::optional<v1::ProcessState> ParseActivity(const std::string& stat, int64_t ticks_per_second) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return std::nullopt;
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(name_end + 2), ' ');
  uint64_t user = 0;
  uint64_t system = 0;
  if (fields.size() <= kSystemTicksField || fields[0].size() != 1 ||
      !absl::SimpleAtoi(fields[kUserTicksField], &user) ||
      !absl::SimpleAtoi(fields[kSystemTicksField], &system))
    return std::nullopt;
  v1::ProcessState state;
  state.set_state(fields[0]);
  state.set_cpu_ns(static_cast<int64_t>(user + system) * (1'000'000'000 / ticks_per_second));
  return state;
}

int64_t ParseTransferred(const std::string& io) {
  std::map<std::string, int64_t> values;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(io, '\n'))) {
    const std::vector<std::string> pair = absl::StrSplit(line, absl::MaxSplits(": ", 1));
    int64_t value = 0;
    if (pair.size() == 2 && absl::SimpleAtoi(pair[1], &value) && value >= 0) values[pair[0]] = value;
  }
  // A long call counts in rchar and wchar at its end only, and mapped files never do.
  const auto either = [&](const char* calls, const char* pages) {
    return std::min(std::max(values[calls], values[pages]), INT64_MAX / 2);
  };
  return either("rchar", "read_bytes") + either("wchar", "write_bytes");
}

std::optional<v1::ProcessState> ReadActivity(const HostAccess& access, const ProcessId& process) {
  const std::string stat = ReadProcFile(access, process.pid, "stat");
  const std::optional<ProcessInfo> info = ParseProcStat(stat);
  if (!info || info->id != process) return std::nullopt;
  std::optional<v1::ProcessState> state = ParseActivity(stat, ::sysconf(_SC_CLK_TCK));
  if (!state) return std::nullopt;
  const std::string channel = CleanText(ReadProcFile(access, process.pid, "wchan"), kLongestChannel);
  if (channel != "0") state->set_wait_channel(channel);
  state->set_transferred_bytes(ParseTransferred(ReadProcFile(access, process.pid, "io")));
  return state;
}

}  // namespace lockstep::daemon
