#include "aggregator/views/launch_stats.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "aggregator/analysis/intervals.h"
#include "common/base/median.h"

namespace lockstep::views {
namespace {

// In the making: delays are kept for their median.
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

bool CountsForHta(std::string_view call) {
  return call == "cudaLaunchKernel" || call == "cudaLaunchKernelExC" || call == "cudaMemcpyAsync" || call == "cudaMemsetAsync";
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
      for (auto at = named_.lower_bound({rank, NameId()}); at != named_.end() && at->first.first == rank; ++at) rows.push_back(at->second.Done());
      std::stable_sort(rows.begin() + first, rows.end(), [](const LaunchStat& a, const LaunchStat& b) { return a.delay > b.delay; });
    }
    return rows;
  }

 private:
  std::map<RankId, Launches> all_;
  std::map<std::pair<RankId, NameId>, Launches> named_;
};

// Changes of a step function over time.
struct Change {
  HostTime at;
  double by;
};

StreamQueue QueueOf(StreamQueue queue, std::vector<Change>& changes) {
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
  double length = 0, area = 0;
  HostTime since = changes.front().at;
  for (const Change& c : changes) {
    const Nanos lasted = c.at - since;
    area += length * static_cast<double>(lasted.ns());
    if (length >= static_cast<double>(kFullQueue)) queue.full += lasted;
    since = c.at;
    length += c.by;
    queue.longest = std::max(queue.longest, static_cast<uint64_t>(std::max(0.0, length)));
  }
  const Nanos span = changes.back().at - changes.front().at;
  if (span > Nanos()) queue.mean = area / static_cast<double>(span.ns());
  return queue;
}

struct Copies {
  CopyRate rate;
  std::vector<HostInterval> ran;
  std::vector<Change> changes;
};

CopyRate RateOf(Copies& copies) {
  CopyRate& rate = copies.rate;
  rate.busy = analysis::Measure(analysis::Normalize(std::move(copies.ran)));
  if (copies.changes.empty()) return rate;
  rate.bytes_per_s = static_cast<double>(rate.bytes) * 1e9 / static_cast<double>(rate.busy.ns());
  std::sort(copies.changes.begin(), copies.changes.end(), [](const Change& a, const Change& b) { return std::tie(a.at, a.by) < std::tie(b.at, b.by); });
  double now = 0, peak = 0;
  for (const Change& c : copies.changes) {
    now += c.by;
    peak = std::max(peak, now);
  }
  rate.peak_bytes_per_s = peak;
  return rate;
}

}  // namespace

std::vector<LaunchStat> LaunchStatsOf(const store::Capture& capture, LaunchRanks ranks, DeviceRule rule) {
  LaunchTable table;
  for (const store::RankData& rank : capture.ranks) {
    for (const DeviceWork& w : DeviceWorkOf(rank, rule)) {
      if (w.launch == nullptr || (rule == DeviceRule::kHta && !CountsForHta(capture.Text(w.launch->name)))) continue;
      table.Add(ranks == LaunchRanks::kEach ? rank.rank : kNoRank, w);
    }
  }
  return table.Rows();
}

std::vector<StreamQueue> StreamQueuesOf(const store::Capture& capture, DeviceRule rule) {
  std::vector<StreamQueue> out;
  for (const store::RankData& rank : capture.ranks) {
    std::map<StreamId, std::pair<StreamQueue, std::vector<Change>>> streams;
    for (const DeviceWork& w : DeviceWorkOf(rank, rule)) {
      if (w.launch == nullptr) continue;
      auto& [queue, changes] = streams[w.activity->stream];
      queue.rank = rank.rank, queue.device = rank.device, queue.stream = w.activity->stream;
      ++queue.launches;
      // Stamps of host and device may cross by a few microseconds: it never was queued then.
      changes.push_back({w.launch->start, 1});
      changes.push_back({std::max(w.launch->start, w.activity->start), -1});
    }
    for (auto& [stream, s] : streams) out.push_back(QueueOf(s.first, s.second));
  }
  return out;
}

std::vector<CopyRate> CopyRatesOf(const store::Capture& capture, DeviceRule rule) {
  std::vector<CopyRate> out;
  for (const store::RankData& rank : capture.ranks) {
    std::map<NameId, Copies> kinds;
    for (const DeviceWork& w : DeviceWorkOf(rank, rule)) {
      const store::DeviceActivity& a = *w.activity;
      if (a.kind == store::ActivityKind::kKernel) continue;
      Copies& copies = kinds[a.name];
      copies.rate.rank = rank.rank, copies.rate.device = rank.device, copies.rate.name = a.name;
      ++copies.rate.copies;
      const Nanos length = a.end - a.start;
      const uint64_t bytes = a.detail < rank.copy_details.size() ? rank.copy_details[a.detail].bytes : 0;
      if (bytes == 0 || length <= Nanos()) {
        ++copies.rate.unknown;
        continue;
      }
      copies.rate.bytes += bytes;
      copies.ran.push_back({a.start, a.end});
      const double rate = static_cast<double>(bytes) * 1e9 / static_cast<double>(length.ns());
      copies.changes.push_back({a.start, rate});
      copies.changes.push_back({a.end, -rate});
    }
    const auto first = static_cast<std::ptrdiff_t>(out.size());
    for (auto& [kind, copies] : kinds) out.push_back(RateOf(copies));
    std::stable_sort(out.begin() + first, out.end(), [](const CopyRate& a, const CopyRate& b) { return a.bytes > b.bytes; });
  }
  return out;
}

}  // namespace lockstep::views
