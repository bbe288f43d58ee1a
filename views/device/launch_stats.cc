#include "views/device/launch_stats.h"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "analysis/time/device_load.h"
#include "base/median.h"

namespace lockstep::views {
namespace {

// Sums under construction. Delays are kept to compute their median.
struct Launches {
  LaunchStat stat;
  std::vector<int64_t> delays;

  void Add(const DeviceWork& w) {
    const Nanos host = w.launch->end - w.launch->start;
    const Nanos device = w.activity->end - w.activity->start;
    const Nanos delay = std::max(Nanos(), w.activity->start - w.launch->end);
    ++stat.calls;
    stat.host += host;
    stat.device += device;
    stat.delay += delay;
    stat.longest_delay = std::max(stat.longest_delay, delay);
    stat.shorter_than_call += device < host ? 1 : 0;
    stat.long_calls += host > kLongCall ? 1 : 0;
    stat.late_starts += delay > kLateStart ? 1 : 0;
    delays.push_back(delay.ns());
  }
  LaunchStat Done() {
    if (!delays.empty()) stat.median_delay = Nanos(MedianInPlace(std::span(delays)));
    return stat;
  }
};

// HTA's launch statistics know fewer calls than its queues.
bool CountsForHta(std::string_view call) {
  return call == "cudaLaunchKernel" || call == "cudaLaunchKernelExC" || call == "cudaMemcpyAsync" ||
         call == "cudaMemsetAsync";
}

bool QueuesForHta(std::string_view call) {
  return CountsForHta(call) || call == "cuLaunchKernel" || call == "cuLaunchKernelEx";
}

class LaunchTable {
 public:
  void Add(RankId shown, const DeviceWork& w) {
    auto& all = all_[shown];
    all.stat.rank = shown;
    all.Add(w);
    auto& one = named_[{shown, w.activity->name}];
    one.stat.rank = shown;
    one.stat.name = w.activity->name;
    one.Add(w);
  }
  std::vector<LaunchStat> Rows() {
    std::vector<LaunchStat> rows;
    for (auto& [rank, all] : all_) {
      rows.push_back(all.Done());
      const auto first = static_cast<std::ptrdiff_t>(rows.size());
      for (auto at = named_.lower_bound({rank, NameId()}); at != named_.end() && at->first.first == rank;
           ++at)
        rows.push_back(at->second.Done());
      std::stable_sort(rows.begin() + first, rows.end(),
                       [](const LaunchStat& a, const LaunchStat& b) { return a.delay > b.delay; });
    }
    return rows;
  }

 private:
  std::map<RankId, Launches> all_;
  std::map<std::pair<RankId, NameId>, Launches> named_;
};

// HTA counts only work with its own launch call, and not the work of a graph.
std::map<StreamId, analysis::QueueLevels> QueuesOf(const capture::Capture& capture,
                                                   const capture::RankData& rank, DeviceRule rule) {
  std::vector<DeviceWork> work = DeviceWorkOf(rank, rule);
  if (rule == DeviceRule::kHta) {
    std::erase_if(work, [&](const DeviceWork& w) {
      return w.launch == nullptr || !QueuesForHta(capture.Text(w.launch->name));
    });
  }
  return analysis::QueuesOf(work);
}

StreamQueue QueueOf(StreamQueue queue, const std::vector<analysis::Level>& levels) {
  if (levels.empty()) return queue;
  double area = 0, longest = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    longest = std::max(longest, levels[i].value);
    if (i + 1 == levels.size()) break;
    const Nanos lasted = levels[i + 1].at - levels[i].at;
    area += levels[i].value * static_cast<double>(lasted.ns());
    if (levels[i].value >= static_cast<double>(kFullQueue)) queue.full += lasted;
  }
  queue.longest = static_cast<uint64_t>(longest);
  const Nanos span = levels.back().at - levels.front().at;
  if (span > Nanos()) queue.mean = area / static_cast<double>(span.ns());
  return queue;
}

}  // namespace

std::vector<LaunchStat> LaunchStatsOf(const capture::Capture& capture, LaunchRanks ranks, DeviceRule rule) {
  LaunchTable table;
  for (const capture::RankData& rank : capture.ranks) {
    for (const DeviceWork& w : DeviceWorkOf(rank, rule)) {
      if (w.launch == nullptr || (rule == DeviceRule::kHta && !CountsForHta(capture.Text(w.launch->name))))
        continue;
      table.Add(ranks == LaunchRanks::kEach ? rank.rank : kNoRank, w);
    }
  }
  return table.Rows();
}

std::vector<StreamQueue> StreamQueuesOf(const capture::Capture& capture, DeviceRule rule) {
  std::vector<StreamQueue> out;
  for (const capture::RankData& rank : capture.ranks) {
    for (const auto& [stream, queue] : QueuesOf(capture, rank, rule)) {
      out.push_back(
          QueueOf({.rank = rank.rank, .device = rank.device, .stream = stream, .launches = queue.launches},
                  queue.levels));
    }
  }
  return out;
}

std::vector<CopyRate> CopyRatesOf(const capture::Capture& capture, DeviceRule rule) {
  std::vector<CopyRate> out;
  for (const capture::RankData& rank : capture.ranks) {
    const auto first = static_cast<std::ptrdiff_t>(out.size());
    for (const auto& [name, copies] : analysis::CopiesOf(rank, DeviceWorkOf(rank, rule))) {
      CopyRate& rate = out.emplace_back(CopyRate{.rank = rank.rank,
                                                 .device = rank.device,
                                                 .name = name,
                                                 .copies = copies.copies,
                                                 .bytes = copies.bytes,
                                                 .unknown = copies.unknown,
                                                 .busy = copies.busy});
      if (copies.levels.empty()) continue;
      rate.bytes_per_s = static_cast<double>(rate.bytes) * 1e9 / static_cast<double>(rate.busy.ns());
      double peak = 0;
      for (const analysis::Level& level : copies.levels) peak = std::max(peak, level.value);
      rate.peak_bytes_per_s = peak;
    }
    std::stable_sort(out.begin() + first, out.end(),
                     [](const CopyRate& a, const CopyRate& b) { return a.bytes > b.bytes; });
  }
  return out;
}

std::vector<QueuePoint> QueueSeriesOf(const capture::Capture& capture, DeviceRule rule) {
  std::vector<QueuePoint> out;
  for (const capture::RankData& rank : capture.ranks) {
    for (const auto& [stream, queue] : QueuesOf(capture, rank, rule)) {
      for (const analysis::Level& level : queue.levels) {
        out.push_back({rank.rank, rank.device, stream, level.at, static_cast<uint64_t>(level.value)});
      }
    }
  }
  return out;
}

std::vector<CopyRatePoint> CopyRateSeriesOf(const capture::Capture& capture, DeviceRule rule) {
  std::vector<CopyRatePoint> out;
  for (const capture::RankData& rank : capture.ranks) {
    for (const auto& [name, copies] : analysis::CopiesOf(rank, DeviceWorkOf(rank, rule))) {
      for (const analysis::Level& level : copies.levels)
        out.push_back({rank.rank, rank.device, name, level.at, level.value});
    }
  }
  return out;
}

}  // namespace lockstep::views
