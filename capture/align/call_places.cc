#include "capture/align/call_places.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace lockstep::align {
namespace {

// A kernel whose launches lie equally many calls apart at least so often marks steps.
constexpr size_t kLeastIntervals = 2;
// Steps may make a few calls more or less.
constexpr int64_t kSameOneIn = 50;
// Launches of one channel that lie less than this apart could not be told from each other when a step makes
// other calls.
constexpr int64_t kLeastCallsApart = 4;
// Records of one kernel are seldom lost so many steps in turn.
constexpr int64_t kMostSteps = 3;
// A place that is filled in less than this part of the steps is none.
constexpr double kOftenFilled = 0.5;

bool AllMultiples(const std::map<int64_t, size_t>& intervals, int64_t of) {
  return std::all_of(intervals.begin(), intervals.end(), [of](const auto& i) {
    const int64_t times = (i.first + of / 2) / of;
    return times > 0 && std::llabs(i.first - times * of) * kSameOneIn <= of;
  });
}

}  // namespace

CallPlaces::CallPlaces(const store::RankData& rank) {
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, std::vector<int64_t>> launches;  // by name and stream
  for (const store::DeviceActivity& a : rank.activities) {
    if (a.correlation.value() != 0)
      launches[{a.name.value(), a.stream.value()}].push_back(a.correlation.value());
  }
  // What a step launches once lies whole steps apart, more where records were lost. The longest such interval
  // is a step's, or several steps' of something whose records were lost in turns: then others show the step
  // more often.
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

std::optional<std::vector<int64_t>> CallPlaces::Of(const store::RankData& rank,
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
  // Offsets that steps share.
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

}  // namespace lockstep::align
