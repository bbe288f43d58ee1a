#include "history/change_points.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "base/median.h"
#include "base/split_mix.h"

namespace lockstep::history {
namespace {

// Distances from the median are limited to so many median deviations.
constexpr double kFurthest = 5;

double MedianOfPart(std::span<const double> part) {
  return Median(std::vector<double>(part.begin(), part.end()));
}

// Places of the values in sorted order, from 1. Equal values share the mean of their places.
std::vector<double> MidRanks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double shared = static_cast<double>(first + 1 + end) / 2;
    for (size_t i = first; i < end; ++i) ranks[order[i]] = shared;
    first = end;
  }
  return ranks;
}

// If more than half of the values are equal, the median deviation is 0, and the mean deviation stands for it.
std::vector<double> LimitedDistances(std::span<const double> values) {
  const double median = MedianOfPart(values);
  std::vector<double> distances, sizes;
  for (const double value : values) {
    distances.push_back(value - median);
    sizes.push_back(std::abs(value - median));
  }
  const double typical = Median(sizes);
  const double most = kFurthest * (typical > 0 ? typical : Mean(sizes));
  for (double& distance : distances) distance = std::clamp(distance, -most, most);
  return distances;
}

// Returns the largest difference between both parts of any split, in units of its standard deviation up to a
// factor that is the same for all orders of the values.
double Separation(std::span<const double> values, double mean) {
  const size_t n = values.size();
  double largest = 0, sum = 0;
  for (size_t at = 1; at + kLeastSide <= n; ++at) {
    sum += values[at - 1] - mean;
    if (at < kLeastSide) continue;
    largest =
        std::max(largest, std::abs(sum) / std::sqrt(static_cast<double>(at) * static_cast<double>(n - at)));
  }
  return largest;
}

// Returns the share of orders, this one included, that separate at least as well.
double ShareOfOrders(std::vector<double> values) {
  constexpr double kRounding = 1 - 1e-9;  // the same sums in another order
  const double mean = Mean(values);
  const double separation = Separation(values, mean);
  if (separation == 0) return 1;
  SplitMix random(values.size());
  size_t as_large = 1;
  for (size_t shuffle = 1; shuffle < kShuffles; ++shuffle) {
    for (size_t i = values.size() - 1; i > 0; --i) std::swap(values[i], values[random.Below(i + 1)]);
    if (Separation(values, mean) >= separation * kRounding) ++as_large;
  }
  return static_cast<double>(as_large) / static_cast<double>(kShuffles);
}

// Two tests, because each misses changes that the other finds: ranks do not see how far the last few values
// are from the rest, and distances are blurred by outliers. Doubling the smaller probability keeps the bound.
double ProbabilityOfChance(std::span<const double> values) {
  return std::min(1.0,
                  2 * std::min(ShareOfOrders(MidRanks(values)), ShareOfOrders(LimitedDistances(values))));
}

// The sum of the distances of values from their median, while values are added.
class DistanceFromMedian {
 public:
  double Add(double value) {
    const bool low = low_.empty() || value <= *low_.rbegin();
    (low ? low_ : high_).insert(value);
    (low ? low_sum_ : high_sum_) += value;
    if (low_.size() > high_.size() + 1) Move(low_, low_sum_, std::prev(low_.end()), high_, high_sum_);
    if (high_.size() > low_.size()) Move(high_, high_sum_, high_.begin(), low_, low_sum_);
    const double median = *low_.rbegin();
    return median * static_cast<double>(low_.size()) - low_sum_ + high_sum_ -
           median * static_cast<double>(high_.size());
  }

 private:
  using Half = std::multiset<double>;
  static void Move(Half& from, double& from_sum, Half::iterator at, Half& to, double& to_sum) {
    from_sum -= *at;
    to_sum += *at;
    to.insert(from.extract(at));
  }
  Half low_, high_;  // `low_` has as many values as `high_`, or one more
  double low_sum_ = 0, high_sum_ = 0;
};

// Returns the split whose parts are closest to their medians.
size_t BestSplit(std::span<const double> values) {
  const size_t n = values.size();
  std::vector<double> before(n + 1), after(n + 1);  // by the place of the split
  DistanceFromMedian first, last;
  for (size_t i = 0; i < n; ++i) before[i + 1] = first.Add(values[i]);
  for (size_t i = n; i > 0; --i) after[i - 1] = last.Add(values[i - 1]);
  size_t best = kLeastSide;
  for (size_t at = kLeastSide; at + kLeastSide <= n; ++at) {
    if (before[at] + after[at] < before[best] + after[best]) best = at;
  }
  return best;
}

// Adds the splits of [begin, end) to `places`, with their probabilities.
void SplitPart(std::span<const double> values, size_t begin, size_t end, double false_alarms,
               std::vector<std::pair<size_t, double>>& places) {
  if (end - begin < 2 * kLeastSide) return;
  const std::span<const double> part = values.subspan(begin, end - begin);
  const double probability = ProbabilityOfChance(part);
  if (probability > false_alarms) return;
  const size_t at = begin + BestSplit(part);
  SplitPart(values, begin, at, false_alarms, places);
  places.emplace_back(at, probability);
  SplitPart(values, at, end, false_alarms, places);
}

// As a fraction of the median before. From 0, every shift is infinite.
double RelativeShift(const ChangePoint& change) {
  const double shift = std::abs(change.after - change.before);
  return shift == 0 ? 0 : shift / std::abs(change.before);
}

// Fills the parts beside each place.
std::vector<ChangePoint> ChangesAt(std::span<const double> values,
                                   const std::vector<std::pair<size_t, double>>& places) {
  std::vector<ChangePoint> changes;
  for (size_t i = 0; i < places.size(); ++i) {
    ChangePoint change{.first = places[i].first, .probability = places[i].second};
    change.before_begin = i == 0 ? 0 : places[i - 1].first;
    change.after_end = i + 1 == places.size() ? values.size() : places[i + 1].first;
    change.before = MedianOfPart(values.subspan(change.before_begin, change.first - change.before_begin));
    change.after = MedianOfPart(values.subspan(change.first, change.after_end - change.first));
    changes.push_back(change);
  }
  return changes;
}

}  // namespace

std::vector<ChangePoint> FindChangePoints(std::span<const double> values, const ChangeOptions& options) {
  std::vector<std::pair<size_t, double>> places;
  SplitPart(values, 0, values.size(), options.false_alarms, places);
  while (true) {
    std::vector<ChangePoint> changes = ChangesAt(values, places);
    const auto smallest = std::min_element(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
      return RelativeShift(a) < RelativeShift(b);
    });
    if (smallest == changes.end() || RelativeShift(*smallest) >= options.least_shift) return changes;
    // The parts beside a small shift are one, and their neighbours are compared with both.
    places.erase(places.begin() + (smallest - changes.begin()));
  }
}

}  // namespace lockstep::history
