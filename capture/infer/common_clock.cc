#include "capture/infer/common_clock.h"

#include <algorithm>
#include <cmath>

#include "base/median.h"

namespace lockstep::capture {
namespace {

// Of long channels, this many kernels are enough.
constexpr size_t kMostCompared = 256;
constexpr size_t kMostSearched = 96;
// Windows open together, so the first kernels of two ranks are at most this many kernels apart.
constexpr size_t kMostShift = 16;
constexpr size_t kMostForSlope = 48;
// A kernel that began this many lengths of the operation plus kClearlyEarlierNs before the other would have
// ended by then, unless it waited.
constexpr double kClearlyEarlier = 3, kClearlyEarlierNs = 20e3;
constexpr size_t kLeastForSlope = 6;
constexpr double kMostDrift = 4e-4;
// Widths of the search for a common distance, narrowest first: exit skew, drift over the window, slow links.
constexpr double kWidths[] = {30e3, 120e3, 500e3, 2e6, 8e6};

std::span<const KernelInterval> InnerPart(std::span<const KernelInterval> s, size_t most) {
  return s.size() <= most ? s : s.subspan((s.size() - most) / 2, most);
}

struct Pair {
  uint32_t a;
  uint32_t b;
};

// Pairs ends that are each other's nearest after `ahead` is subtracted from b's clock.
std::vector<Pair> NearestEnds(std::span<const KernelInterval> a, std::span<const KernelInterval> b,
                              const ClockLine& ahead) {
  std::vector<double> ends(b.size());
  for (size_t j = 0; j < b.size(); ++j) ends[j] = b[j].end_ns - ahead.At(b[j].end_ns);
  std::vector<Pair> pairs;
  std::vector<uint32_t> nearest_of_b(b.size(), UINT32_MAX);
  std::vector<uint32_t> nearest_of_a(a.size());
  size_t j = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    while (j + 1 < ends.size() && std::fabs(ends[j + 1] - a[i].end_ns) <= std::fabs(ends[j] - a[i].end_ns))
      ++j;
    nearest_of_a[i] = static_cast<uint32_t>(j);
    uint32_t& back = nearest_of_b[j];
    if (back == UINT32_MAX || std::fabs(a[back].end_ns - ends[j]) > std::fabs(a[i].end_ns - ends[j]))
      back = static_cast<uint32_t>(i);
  }
  for (uint32_t i = 0; i < a.size(); ++i) {
    if (nearest_of_b[nearest_of_a[i]] == i) pairs.push_back({i, nearest_of_a[i]});
  }
  return pairs;
}

// The distance of ends (b - a) that most pairs share, in the narrowest width that holds half of them.
std::optional<double> SharedDistance(std::span<const KernelInterval> a, std::span<const KernelInterval> b) {
  const std::span<const KernelInterval> some = InnerPart(a, kMostSearched);
  const auto first = static_cast<size_t>(some.data() - a.data());
  const size_t shift = kMostShift + (a.size() > b.size() ? a.size() - b.size() : b.size() - a.size());
  std::vector<double> distances;
  for (size_t k = 0; k < some.size(); ++k) {
    const size_t i = first + k;
    const size_t from = i > shift ? i - shift : 0;
    for (size_t j = from; j < std::min(b.size(), i + shift + 1); ++j)
      distances.push_back(b[j].end_ns - some[k].end_ns);
  }
  std::sort(distances.begin(), distances.end());
  const size_t enough = (std::min(some.size(), b.size()) + 1) / 2;
  for (const double width : kWidths) {
    size_t best_count = 0, best_first = 0, low = 0;
    const auto middle = [&](size_t from, size_t count) { return std::fabs(distances[from + count / 2]); };
    for (size_t high = 0; high < distances.size(); ++high) {
      while (distances[high] - distances[low] > width) ++low;
      const size_t count = high - low + 1;
      if (count > best_count ||
          (count == best_count && middle(low, count) < middle(best_first, best_count))) {
        best_count = count;
        best_first = low;
      }
    }
    if (best_count >= enough) return distances[best_first + best_count / 2];
  }
  return std::nullopt;
}

ClockLine FitLine(std::span<const KernelInterval> a, std::span<const KernelInterval> b,
                  const std::vector<Pair>& pairs) {
  ClockLine line;
  line.origin_ns = b[pairs[pairs.size() / 2].b].end_ns;
  const auto distance = [&](const Pair& p) { return b[p.b].end_ns - a[p.a].end_ns; };
  if (pairs.size() >= kLeastForSlope) {
    std::vector<double> slopes;
    const size_t stride = (pairs.size() + kMostForSlope - 1) / kMostForSlope;
    for (size_t i = 0; i < pairs.size(); i += stride) {
      for (size_t j = i + stride; j < pairs.size(); j += stride) {
        const double x = b[pairs[j].b].end_ns - b[pairs[i].b].end_ns;
        if (x > 0) slopes.push_back((distance(pairs[j]) - distance(pairs[i])) / x);
      }
    }
    if (!slopes.empty()) line.drift = std::clamp(UpperMedianInPlace(slopes), -kMostDrift, kMostDrift);
  }
  std::vector<double> offsets;
  for (const Pair& p : pairs) offsets.push_back(distance(p) - line.drift * (b[p.b].end_ns - line.origin_ns));
  line.offset_ns = UpperMedianInPlace(offsets);
  return line;
}

Coincidence Measure(std::span<const KernelInterval> a, std::span<const KernelInterval> b,
                    const ClockLine& ahead) {
  Coincidence out;
  if (a.empty() || b.empty()) return out;
  std::vector<double> ends, starts, signed_ends;
  for (const Pair& p : NearestEnds(a, b, ahead)) {
    const double shift = ahead.At(b[p.b].end_ns);
    signed_ends.push_back(b[p.b].end_ns - shift - a[p.a].end_ns);
    ends.push_back(std::fabs(signed_ends.back()));
    starts.push_back(std::fabs(b[p.b].start_ns - shift - a[p.a].start_ns));
  }
  out.pairs = static_cast<uint32_t>(ends.size());
  if (ends.empty()) return out;
  // A kernel before the other's first or after its last one cannot have a partner, so it does not count as
  // missing one.
  const double from = std::max(a.front().end_ns, b.front().end_ns - ahead.At(b.front().end_ns));
  const double to = std::min(a.back().end_ns, b.back().end_ns - ahead.At(b.back().end_ns));
  const double slack = 0.1 * std::max(0.0, to - from) / static_cast<double>(std::max<size_t>(1, ends.size()));
  const auto inside_a = std::count_if(a.begin(), a.end(), [&](const KernelInterval& s) {
    return s.end_ns >= from - slack && s.end_ns <= to + slack;
  });
  const auto inside_b = std::count_if(b.begin(), b.end(), [&](const KernelInterval& s) {
    const double end = s.end_ns - ahead.At(s.end_ns);
    return end >= from - slack && end <= to + slack;
  });
  const auto most = static_cast<double>(std::max<std::ptrdiff_t>(1, std::max(inside_a, inside_b)));
  out.share = std::min(1.0, static_cast<double>(ends.size()) / most);
  out.end_spread_ns = UpperMedianInPlace(ends);
  out.start_spread_ns = UpperMedianInPlace(starts);
  const double constant_difference = UpperMedianInPlace(signed_ends);
  for (double& e : signed_ends) e = std::fabs(e - constant_difference);
  out.end_scatter_ns = UpperMedianInPlace(signed_ends);
  return out;
}

}  // namespace

Coincidence Compare(std::span<const KernelInterval> a, std::span<const KernelInterval> b) {
  return Measure(InnerPart(a, kMostCompared), b, {});
}

std::vector<KernelInterval> Merged(std::span<const KernelInterval> a, std::span<const KernelInterval> b) {
  std::vector<KernelInterval> out(a.begin(), a.end());
  std::vector<uint8_t> taken(b.size(), 0);
  for (const Pair& p : NearestEnds(a, b, {})) {
    out[p.a] = {std::max(a[p.a].start_ns, b[p.b].start_ns), std::min(a[p.a].end_ns, b[p.b].end_ns)};
    taken[p.b] = 1;
  }
  for (size_t j = 0; j < b.size(); ++j) {
    if (!taken[j]) out.push_back(b[j]);
  }
  std::sort(out.begin(), out.end(),
            [](const KernelInterval& x, const KernelInterval& y) { return x.end_ns < y.end_ns; });
  return out;
}

WaitCounts CountWaiting(std::span<const KernelInterval> a, std::span<const KernelInterval> b) {
  WaitCounts out;
  for (const Pair& p : NearestEnds(a, b, {})) {
    const KernelInterval& later = a[p.a].start_ns > b[p.b].start_ns ? a[p.a] : b[p.b];
    const KernelInterval& earlier = a[p.a].start_ns > b[p.b].start_ns ? b[p.b] : a[p.a];
    const double length = std::max(0.0, later.end_ns - later.start_ns);
    if (later.start_ns - earlier.start_ns < kClearlyEarlier * length + kClearlyEarlierNs) continue;
    ++out.decidable;
    out.waited += earlier.end_ns > later.start_ns ? 1 : 0;
  }
  return out;
}

double LengthSpread(std::span<const KernelInterval> intervals) {
  if (intervals.empty()) return 0;
  std::vector<double> lengths;
  for (const KernelInterval& s : intervals) lengths.push_back(s.end_ns - s.start_ns);
  std::sort(lengths.begin(), lengths.end());
  return (lengths[lengths.size() * 4 / 5] - lengths[lengths.size() / 5]) / 2;
}

std::optional<ClockGuess> GuessClock(std::span<const KernelInterval> a, std::span<const KernelInterval> b) {
  if (a.empty() || b.empty()) return std::nullopt;
  const std::optional<double> distance = SharedDistance(a, b);
  if (!distance) return std::nullopt;
  ClockGuess guess;
  guess.line = {*distance, 0, b.front().end_ns};
  const std::vector<Pair> pairs = NearestEnds(a, b, guess.line);
  if (pairs.empty()) return std::nullopt;
  // Pairs that are far off come from lost records.
  std::vector<double> far;
  for (const Pair& p : pairs) far.push_back(std::fabs(b[p.b].end_ns - a[p.a].end_ns - *distance));
  std::vector<double> sorted = far;
  const double limit = 6 * UpperMedianInPlace(sorted) + 20e3;
  std::vector<Pair> near;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (far[i] <= limit) near.push_back(pairs[i]);
  }
  guess.line = FitLine(a, b, near);
  guess.coincidence = Measure(a, b, guess.line);
  return guess;
}

}  // namespace lockstep::capture
