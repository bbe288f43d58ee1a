#include "cli/commands/memory_limit.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "analysis/gains/fit_memory.h"
#include "base/files/read_files.h"
#include "base/parallel.h"
#include "cli/common/exit_code.h"

namespace lockstep::cli {
namespace {

// Address space of a thread's stack. It counts against RLIMIT_DATA before it is used.
constexpr uint64_t kStackBytes = uint64_t{8} << 20;

// Allocations of this size have a mapping of their own.
constexpr int kOwnMapping = 256 << 10;

// Written by LimitMemory(), read when memory is short: nothing can be allocated then.
char out_of_memory[256];
size_t out_of_memory_bytes = 0;

void EndWithoutMemory() {
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, out_of_memory, out_of_memory_bytes);
  ::_exit(static_cast<int>(ExitCode::kFailed));
}

std::optional<uint64_t> NumberIn(const std::string& path) {
  const std::optional<std::string> text = FileText(path);
  uint64_t number = 0;
  if (!text || !absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &number)) return std::nullopt;
  return number;
}

std::optional<uint64_t> InstalledMemory(const std::string& root) {
  const std::optional<std::string> text = FileText(root + "/proc/meminfo");
  if (!text) return std::nullopt;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (!absl::ConsumePrefix(&line, "MemTotal:") || !absl::ConsumeSuffix(&line, "kB")) continue;
    uint64_t kib = 0;
    if (absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &kib)) return kib << 10;
  }
  return std::nullopt;
}

// Returns the lowest limit from this control group up to the root of its hierarchy. "max", and a group that
// this container does not show, are no limit.
uint64_t GroupLimit(const std::string& hierarchy, std::string group, const char* file) {
  uint64_t least = UINT64_MAX;
  while (true) {
    least = std::min(least, NumberIn(absl::StrCat(hierarchy, group, "/", file)).value_or(UINT64_MAX));
    if (group.empty()) return least;
    const size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
}

uint64_t GroupLimits(const std::string& root) {
  const std::optional<std::string> text = FileText(root + "/proc/self/cgroup");
  uint64_t least = UINT64_MAX;
  if (!text) return least;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() < 3) continue;
    const std::string group = fields[2] == "/" ? "" : fields[2];
    if (fields[1].empty()) least = std::min(least, GroupLimit(root + "/sys/fs/cgroup", group, "memory.max"));
    if (fields[1] == "memory")
      least = std::min(least, GroupLimit(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
  }
  return least;
}

}  // namespace

void AddMemoryFlag(CLI::App& app, uint64_t& bytes) {
  app.add_option("--memory", bytes,
                 "Most memory to use, as in 8GiB. A larger input uses fewer threads, then a temporary file, "
                 "then fewer steps. Without these it is refused. Default: half of the machine's, or of the "
                 "control group's limit")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE");
}

std::optional<uint64_t> MachineMemory(const std::string& root) {
  const std::optional<uint64_t> installed = InstalledMemory(root);
  const uint64_t least = std::min(installed.value_or(UINT64_MAX), GroupLimits(root));
  return least == UINT64_MAX ? std::nullopt : std::optional(least);
}

uint64_t MemoryLimitOf(uint64_t flag_bytes) {
  return flag_bytes > 0 ? flag_bytes : MachineMemory("").value_or(0) / 2;
}

void LimitMemory(uint64_t bytes) {
  if (bytes == 0) return;
  const std::string text =
      absl::StrCat("lockstep: the input needs more than ", analysis::MemoryText(bytes),
                   " of memory (--memory); give fewer ranks or a shorter recording, or raise --memory\n");
  out_of_memory_bytes = std::min(text.size(), sizeof(out_of_memory));
  std::memcpy(out_of_memory, text.data(), out_of_memory_bytes);
  std::set_new_handler(EndWithoutMemory);
  // Freed tables go back to the system at once. By default, glibc keeps more and more of them for reuse.
  ::mallopt(M_MMAP_THRESHOLD, kOwnMapping);
  rlimit now = {};
  if (::getrlimit(RLIMIT_DATA, &now) != 0) return;
  now.rlim_cur = std::min<rlim_t>(now.rlim_max, bytes + kStackBytes * ThreadCount(0));
  (void)::setrlimit(RLIMIT_DATA, &now);
}

}  // namespace lockstep::cli
