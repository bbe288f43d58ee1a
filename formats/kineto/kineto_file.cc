#include "formats/kineto/kineto_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "capture/model/compact.h"

namespace lockstep::formats {
namespace {

struct RowsAndBytes {
  uint64_t rows = 0;  // kernels, copies and calls
  uint64_t bytes = 0;
};

// Calls use(table) for each large table of the file.
template <typename File, typename Use>
void ForEachTable(File& file, const Use& use) {
  for (auto& device : file.devices) {
    use(device.activities);
    use(device.kernel_details);
    use(device.copy_details);
    use(device.collectives);
  }
  use(file.syncs);
  use(file.api_calls);
  use(file.announced);
  use(file.ranges);
  use(file.frames.frames);
  use(file.frames.details);
  use(file.frames.allocations);
}

RowsAndBytes SizeOf(const KinetoFile& file) {
  RowsAndBytes size = {.rows = file.api_calls.size()};
  for (const KinetoDevice& device : file.devices) size.rows += device.activities.size();
  ForEachTable(file, [&](const auto& table) { size.bytes += table.size() * sizeof(table[0]); });
  return size;
}

}  // namespace

void MoveRows(KinetoFile& file, capture::RowOverflow& overflow) {
  const RowsAndBytes size = SizeOf(file);
  if (!overflow.Add(size.rows, size.bytes)) return;
  for (KinetoDevice& device : file.devices) capture::ShareDetails(device.activities, device.kernel_details);
  ForEachTable(file, [&](auto& table) { overflow.Move(table); });
}

void RemoveRows(const KinetoFile& file, capture::RowOverflow& overflow) {
  const RowsAndBytes size = SizeOf(file);
  overflow.Remove(size.rows, size.bytes);
}

std::string KinetoCounters::Describe() const {
  constexpr size_t kShown = 4;
  std::string names;
  size_t shown = 0;
  for (const std::string& name : metrics) {
    if (shown++ == kShown) break;
    absl::StrAppend(&names, names.empty() ? ": " : ", ", name);
  }
  if (metrics.size() > kShown) absl::StrAppend(&names, ", … (", metrics.size(), " metrics)");
  return absl::StrCat(ranges, ranges == 1 ? " range" : " ranges",
                      " with hardware counters (cuda_profiler_range", names, ")");
}

HostInterval RowsOf(const KinetoFile& file) {
  return {AddBase(file.base, file.window.start), AddBase(file.base, file.window.end)};
}

std::string UnusableReason(const KinetoFile& file) {
  const std::string cut = file.broken_off.empty() ? "" : absl::StrCat(": ", file.broken_off);
  if (!file.is_json)
    return absl::StrCat(" is not JSON", cut, "; give a trace that PyTorch's profiler or Lockstep wrote");
  if (!file.has_events) {
    if (!cut.empty()) return absl::StrCat(" is damaged before its first row", cut, "; copy it again");
    return " is JSON but not a trace: it has no \"traceEvents\"";
  }
  if (file.devices.empty()) {
    if (!cut.empty())
      return absl::StrCat(" has no device activity before it ends early", cut, "; copy it again");
    if (file.damage.count() != 0)
      return absl::StrCat(" holds no device activity that can be read; ", file.damage.Describe());
    if (file.counters.ranges != 0) {
      return absl::StrCat(" holds no device activity but ", file.counters.Describe(),
                          "; the profiler records one or the other: record it without counters");
    }
    return " holds no device activity; record it with ProfilerActivity.CUDA";
  }
  return "";
}

void MakeThin(ReadFile& file) {
  KinetoFile& from = file.content;
  KinetoFile thin;
  for (const KinetoDevice& device : from.devices) thin.devices.push_back({.device = device.device});
  thin.pid = from.pid;
  thin.window = from.window;
  thin.rows = from.rows;
  thin.counters = std::move(from.counters);
  thin.damage = std::move(from.damage);
  thin.rank = from.rank;
  thin.world_size = from.world_size;
  thin.host_name = std::move(from.host_name);
  thin.base = from.base;
  thin.broken_off = std::move(from.broken_off);
  thin.has_events = from.has_events;
  thin.is_json = from.is_json;
  from = std::move(thin);
  file.thin = true;
}

JobFile FactsOf(const ReadFile& file) {
  return {.from = file.from,
          .unusable = UnusableReason(file.content),
          .broken_off = file.content.broken_off,
          .declared_rank = file.content.rank,
          .pid = file.content.pid,
          .world_size = file.content.world_size,
          .rows = RowsOf(file.content)};
}

}  // namespace lockstep::formats
