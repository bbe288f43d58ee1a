#include "capture/align/call_places.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace lockstep::capture {
namespace {

// A kernel marks steps if at least this many intervals between its launches are equally many calls long.
constexpr size_t kLeastIntervals = 2;
// The number of calls of a step may vary by one in this many.
constexpr int64_t kSameOneIn = 50;
// Launches of one channel that lie fewer calls apart than this would be confused if a step made additional
// calls.
constexpr int64_t kLeastCallsApart = 4;
// A kernel's records are rarely lost in more than this many steps in a row.
constexpr int64_t kMostSteps = 3;
// A place counts only if at least this share of the steps has a kernel there.
constexpr double kOftenFilled = 0.5;

bool AllMultiples(const std::map<int64_t, size_t>& intervals, int64_t of) {
  return std::all_of(intervals.begin(), intervals.end(), [of](const auto& i) {
    const int64_t times = (i.first + of / 2) / of;
    return times > 0 && std::llabs(i.first - times * of) * kSameOneIn <= of;
  });
}

}  // namespace

CallPlaces::CallPlaces(const capture::RankData& rank) {
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, std::vector<int64_t>> launches;  // by name and stream
  for (const capture::DeviceActivity& a : rank.activities) {
    if (a.correlation.value() != 0)
      launches[{a.name.value(), a.stream.value()}].push_back(a.correlation.value());
  }
  // A kernel that is launched once per step has intervals of one step, or of several steps where records were
  // lost. The longest interval is taken as one step. It is several steps if the kernel's records were lost in
  // turns. Then other kernels show a shorter interval more often.
  size_t best_support = 0;
  const std::vector<int64_t>* best = nullptr;
  struct Candidate {
    int64_t interval;
    size_t support;
    const std::vector<int64_t>* calls;
  };
  std::vector<Candidate> candidates;
  for (auto& [key, calls] : launches) {
    std::sort(calls.begin(), calls.end());
    std::map<int64_t, size_t> intervals;
    for (size_t i = 1; i < calls.size(); ++i) ++intervals[calls[i] - calls[i - 1]];
    for (const auto& [interval, support] : intervals) {
      if (support < kLeastIntervals || support * 2 < calls.size() - 1 || interval < 2 * kLeastCallsApart ||
          !AllMultiples(intervals, interval))
        continue;
      candidates.push_back({interval, support, &calls});
    }
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& x, const Candidate& y) {
    return std::tuple(y.interval, y.support, x.calls->front()) <
           std::tuple(x.interval, x.support, y.calls->front());
  });
  for (const Candidate& c : candidates) {
    const bool step_of_several = best != nullptr && c.support > best_support &&
                                 AllMultiples({{calls_, 1}}, c.interval) && calls_ <= kMostSteps * c.interval;
    if (best != nullptr && !step_of_several) continue;
    calls_ = c.interval;
    best_support = c.support;
    best = c.calls;
  }
  if (best == nullptr) return;
  for (const int64_t call : *best) {
    if (!begins_.empty()) {
      const int64_t since = call - begins_.back();
      const int64_t steps = (since + calls_ / 2) / calls_;
      if (steps == 0) continue;
      const int64_t last = begins_.back();
      for (int64_t k = 1; k < steps; ++k) begins_.push_back(last + since * k / steps);
    }
    begins_.push_back(call);
  }
}

std::optional<std::vector<int64_t>> CallPlaces::Of(const capture::RankData& rank,
                                                   std::span<const uint32_t> collectives) const {
  if (begins_.size() < kLeastIntervals) return std::nullopt;
  struct Place {
    int64_t step;
    int64_t offset;
  };
  std::vector<Place> places;
  std::vector<int64_t> offsets;
  for (uint32_t c : collectives) {
    const int64_t call = rank.activities[rank.collectives[c].activity].correlation.value();
    if (call == 0) return std::nullopt;
    auto after = std::upper_bound(begins_.begin(), begins_.end(), call);
    int64_t step, begin;
    if (after == begins_.begin()) {
      const int64_t before = (begins_.front() - call + calls_ - 1) / calls_;
      step = -before;
      begin = begins_.front() - before * calls_;
    } else {
      --after;
      step = after - begins_.begin();
      begin = *after;
      if (after + 1 == begins_.end()) {
        const int64_t beyond = (call - begin) / calls_;
        step += beyond;
        begin += beyond * calls_;
      }
    }
    places.push_back({step, call - begin});
    offsets.push_back(call - begin);
  }
  // Offsets within the step that at least half of the steps share.
  std::sort(offsets.begin(), offsets.end());
  std::vector<int64_t> shared;
  const auto steps = static_cast<double>(begins_.size());
  for (size_t i = 0; i < offsets.size();) {
    size_t j = i;
    while (j < offsets.size() && offsets[j] - offsets[i] < kLeastCallsApart) ++j;
    if (static_cast<double>(j - i) >= kOftenFilled * (steps - 1)) shared.push_back(offsets[i + (j - i) / 2]);
    i = j;
  }
  if (shared.empty()) return std::nullopt;
  std::vector<int64_t> out;
  for (const Place& p : places) {
    const auto above = std::lower_bound(shared.begin(), shared.end(), p.offset);
    int64_t nearest =
        above == shared.end() ? static_cast<int64_t>(shared.size()) - 1 : above - shared.begin();
    if (above != shared.begin() && (above == shared.end() || p.offset - *(above - 1) < *above - p.offset))
      nearest = above - shared.begin() - 1;
    if (std::llabs(shared[static_cast<size_t>(nearest)] - p.offset) >= kLeastCallsApart) return std::nullopt;
    const int64_t place = p.step * static_cast<int64_t>(shared.size()) + nearest;
    if (!out.empty() && place <= out.back()) return std::nullopt;
    out.push_back(place);
  }
  return out;
}

}  // namespace lockstep::capture
