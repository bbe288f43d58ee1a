#include "analysis/prepare/launch_queue.h"

#include <algorithm>
#include <numeric>

#include "analysis/prepare/stats.h"

namespace lockstep::analysis {
namespace {

// A normal launch takes microseconds. A blocked launch takes at least this long, and returns at most this
// long after there was room.
constexpr double kBlockedNs = 20'000;
// A full queue holds at least this share of the longest queue that was seen. Streams have separate queues,
// and only one of them is full.
constexpr double kFull = 0.75;
// Every device's queue is at least this long.
constexpr int64_t kShortestQueue = 16;
// Work that ended less than this share of the usual return time before the return is too late to be the
// reason.
constexpr double kReturning = 0.5;

}  // namespace

std::vector<BlockedLaunch> FindBlockedLaunches(std::span<const LaunchCall> calls,
                                               std::span<const QueuedWork> work) {
  std::vector<BlockedLaunch> blocked;
  if (calls.empty() || std::none_of(calls.begin(), calls.end(),
                                    [](const LaunchCall& c) { return c.end - c.start >= kBlockedNs; }))
    return blocked;
  std::vector<double> launched;
  for (const QueuedWork& w : work) launched.push_back(w.launched);
  std::sort(launched.begin(), launched.end());
  std::vector<uint32_t> by_end(work.size());
  std::iota(by_end.begin(), by_end.end(), 0u);
  std::stable_sort(by_end.begin(), by_end.end(),
                   [&](uint32_t a, uint32_t b) { return work[a].end < work[b].end; });
  const auto ended_by = [&](double t) {
    return std::upper_bound(by_end.begin(), by_end.end(), t,
                            [&](double at, uint32_t i) { return at < work[i].end; }) -
           by_end.begin();
  };
  const auto issued_before = [&](double t) {
    return std::lower_bound(launched.begin(), launched.end(), t) - launched.begin();
  };

  int64_t longest = 0;
  for (const LaunchCall& c : calls)
    longest = std::max<int64_t>(longest, issued_before(c.start) - ended_by(c.end));
  if (longest < kShortestQueue) return blocked;
  std::vector<uint32_t> long_ones;
  std::vector<double> returning;
  for (uint32_t i = 0; i < calls.size(); ++i) {
    const auto ended = ended_by(calls[i].end);
    if (calls[i].end - calls[i].start < kBlockedNs || ended == 0) continue;
    if (static_cast<double>(issued_before(calls[i].start) - ended) < kFull * static_cast<double>(longest))
      continue;
    long_ones.push_back(i);
    returning.push_back(calls[i].end - work[by_end[static_cast<size_t>(ended - 1)]].end);
  }
  if (long_ones.empty()) return blocked;
  const double usual = MedianInPlace(std::span(returning));
  for (uint32_t i : long_ones) {
    const LaunchCall& c = calls[i];
    const auto ended = ended_by(c.end - kReturning * usual);
    if (ended == 0) continue;
    const uint32_t last = by_end[static_cast<size_t>(ended - 1)];
    // A launch cannot have waited for work that it launched itself.
    const bool meanwhile = work[last].end > c.start && work[last].launched < c.start;
    if (meanwhile && c.end - work[last].end <= kBlockedNs) blocked.push_back({i, last});
  }
  return blocked;
}

}  // namespace lockstep::analysis
