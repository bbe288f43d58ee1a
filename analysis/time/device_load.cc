#include "analysis/time/device_load.h"

#include <algorithm>
#include <utility>

#include "analysis/time/intervals.h"

namespace lockstep::analysis {
namespace {

struct Change {
  HostTime at;
  double by;
};

// Returns one level for each moment of change. Each change has its opposite. When all changes are closed, the
// level is set to 0, because sums of fractions may leave a remainder.
std::vector<Level> LevelsOf(std::vector<Change> changes) {
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
  std::vector<Level> levels;
  double value = 0;
  int64_t open = 0;
  for (size_t i = 0; i < changes.size();) {
    const HostTime at = changes[i].at;
    for (; i < changes.size() && changes[i].at == at; ++i) {
      value += changes[i].by;
      open += changes[i].by > 0 ? 1 : -1;
    }
    if (open == 0) value = 0;
    if (value != (levels.empty() ? 0 : levels.back().value)) levels.push_back({at, value});
  }
  return levels;
}

struct Copies {
  CopyLevels of;
  std::vector<HostInterval> ran;
  std::vector<Change> changes;
};

}  // namespace

std::map<StreamId, QueueLevels> QueuesOf(std::span<const DeviceWork> work) {
  std::map<StreamId, std::pair<uint64_t, std::vector<Change>>> streams;
  for (const DeviceWork& w : work) {
    if (w.launch == nullptr) continue;
    auto& [launches, changes] = streams[w.activity->stream];
    ++launches;
    // Stamps of host and device may cross by a few microseconds. The work was then never queued.
    changes.push_back({w.launch->start, 1});
    changes.push_back({std::max(w.launch->start, w.activity->start), -1});
  }
  std::map<StreamId, QueueLevels> queues;
  for (auto& [stream, s] : streams)
    queues[stream] = {.launches = s.first, .levels = LevelsOf(std::move(s.second))};
  return queues;
}

std::map<NameId, CopyLevels> CopiesOf(const capture::RankData& rank, std::span<const DeviceWork> work) {
  std::map<NameId, Copies> kinds;
  for (const DeviceWork& w : work) {
    const capture::DeviceActivity& a = *w.activity;
    if (a.kind == capture::ActivityKind::kKernel) continue;
    Copies& copies = kinds[a.name];
    ++copies.of.copies;
    const Nanos length = a.end - a.start;
    const uint64_t bytes = a.detail < rank.copy_details.size() ? rank.copy_details[a.detail].bytes : 0;
    if (bytes == 0 || length <= Nanos()) {
      ++copies.of.unknown;
      continue;
    }
    copies.of.bytes += bytes;
    copies.ran.push_back({a.start, a.end});
    const double rate = static_cast<double>(bytes) * 1e9 / static_cast<double>(length.ns());
    copies.changes.push_back({a.start, rate});
    copies.changes.push_back({a.end, -rate});
  }
  std::map<NameId, CopyLevels> out;
  for (auto& [name, copies] : kinds) {
    copies.of.busy = Measure(Normalize(std::move(copies.ran)));
    copies.of.levels = LevelsOf(std::move(copies.changes));
    out[name] = std::move(copies.of);
  }
  return out;
}

std::vector<Level> Downsampled(std::vector<Level> levels, size_t most) {
  if (levels.size() <= most || most < 3) return levels;
  const Nanos width((levels.back().at - levels.front().at).ns() / static_cast<int64_t>(most - 2) + 1);
  std::vector<Level> thin;
  double before = 0;  // the level that still holds at the begin of a stretch
  for (size_t i = 0; i < levels.size();) {
    const int64_t stretch = (levels[i].at - levels.front().at).ns() / width.ns();
    const HostTime begin = levels.front().at + Nanos(stretch * width.ns());
    double highest = levels[i].at > begin ? before : 0;
    for (; i < levels.size() && levels[i].at - begin < width; ++i) {
      highest = std::max(highest, levels[i].value);
      before = levels[i].value;
    }
    // Between two stretches with changes, the last level of the first one holds.
    thin.push_back({begin, highest});
    const bool gap = i < levels.size() && levels[i].at - begin >= width + width;
    if (gap && before != highest) thin.push_back({begin + width, before});
  }
  thin.push_back(levels.back());
  return thin;
}

}  // namespace lockstep::analysis
