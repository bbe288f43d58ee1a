#include "analysis/prepare/launches.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace lockstep::analysis {
namespace {

// A table is worth its memory while at least one slot in this many is used.
constexpr uint64_t kSparsest = 16;

}  // namespace

CallIndex::CallIndex(const capture::RankData& rank) {
  uint32_t least = UINT32_MAX, greatest = 0;
  size_t known = 0;
  for (const capture::ApiCall& call : rank.api_calls) {
    const uint32_t c = call.correlation.value();
    if (c == 0) continue;
    ++known;
    least = std::min(least, c);
    greatest = std::max(greatest, c);
  }
  if (known == 0) return;
  const uint64_t range = uint64_t{greatest} - least + 1;
  const bool dense = range <= known * kSparsest + 1024;
  if (dense) {
    least_ = least;
    table_.assign(range, capture::kNone);
  } else {
    sorted_.reserve(known);
  }
  for (uint32_t i = 0; i < rank.api_calls.size(); ++i) {
    const CorrelationId c = rank.api_calls[i].correlation;
    if (c.value() == 0) continue;
    if (!dense) {
      sorted_.push_back({c, i});
    } else if (table_[c.value() - least_] == capture::kNone) {
      table_[c.value() - least_] = i;
    }
  }
  std::stable_sort(sorted_.begin(), sorted_.end(),
                   [](const Entry& a, const Entry& b) { return a.correlation < b.correlation; });
}

uint32_t CallIndex::Search(CorrelationId correlation) const {
  const auto it = std::lower_bound(sorted_.begin(), sorted_.end(), correlation,
                                   [](const Entry& e, CorrelationId c) { return e.correlation < c; });
  return it != sorted_.end() && it->correlation == correlation ? it->call : capture::kNone;
}

std::vector<HostTime> LaunchTimes(const capture::RankData& rank, const CallIndex& calls) {
  const std::vector<capture::DeviceActivity>& activities = rank.activities;
  std::vector<HostTime> times(activities.size());
  struct Stream {
    HostTime next = HostTime::Max();  // launch of the work that follows
    size_t first_launch = SIZE_MAX;   // index of the first activity whose launch was recorded
  };
  absl::flat_hash_map<uint32_t, Stream> streams;
  for (size_t i = activities.size(); i-- > 0;) {
    const capture::DeviceActivity& a = activities[i];
    Stream& stream = streams[a.stream.value()];
    const uint32_t call = calls.Of(a.correlation);
    times[i] = std::min(a.start, call == capture::kNone ? stream.next : rank.api_calls[call].start);
    stream.next = std::min(stream.next, times[i]);
    if (call != capture::kNone) stream.first_launch = i;
  }
  if (rank.api_calls.empty()) return times;
  const HostTime before = rank.api_calls.front().start - Nanos(1);
  for (size_t i = 0; i < activities.size(); ++i) {
    const size_t first = streams[activities[i].stream.value()].first_launch;
    if (first != SIZE_MAX && i < first) times[i] = std::min(times[i], before);
  }
  return times;
}

std::vector<DeviceWork> DeviceWorkOf(const capture::RankData& rank) {
  const CallIndex calls(rank);
  std::vector<DeviceWork> work;
  work.reserve(rank.activities.size());
  for (const capture::DeviceActivity& a : rank.activities) {
    const uint32_t call = calls.Of(a.correlation);
    work.push_back({&a, call == capture::kNone ? nullptr : &rank.api_calls[call]});
  }
  return work;
}

}  // namespace lockstep::analysis
