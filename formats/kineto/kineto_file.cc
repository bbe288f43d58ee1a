#include "formats/kineto/kineto_file.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::formats {

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

std::string WorkerOf(const ReadFile& file) {
  if (file.content.rank) return absl::StrCat("rank ", file.content.rank->value());
  if (const auto rank = RankOf(file.from)) return absl::StrCat("rank ", rank->value());
  const std::string worker = WorkerInFileName(file.from.path);
  // A name in another form may be the same in every folder.
  return file.from.path.ends_with(worker) ? file.from.path : worker;
}

}  // namespace lockstep::formats
