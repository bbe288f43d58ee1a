#include "base/sequence_period.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lockstep {
namespace {

constexpr size_t kLeastPeriods = 3;
constexpr size_t kLongest = 8192;  // operations of a period
// Streams may change places now and then.
constexpr double kLeastEqual = 0.95;
// At most this many places are compared for a period, evenly spread.
constexpr size_t kMostCompared = 1024;
// A period is as good as the best one if its gaps differ at most this many times as much, or by this share of
// the mean gap more.
constexpr double kAsGood = 1.5;
constexpr double kSlightly = 0.02;

struct Candidate {
  size_t period = 0;
  double gap_difference_ns = 0;  // mean difference of gaps one period apart
};

// The distance between the places that are compared for a period.
size_t StrideOf(size_t size, size_t period) { return std::max<size_t>(1, (size - period) / kMostCompared); }

bool Repeats(std::span<const uint64_t> symbols, size_t period) {
  const size_t stride = StrideOf(symbols.size(), period);
  const size_t compared = (symbols.size() - period + stride - 1) / stride;
  // Most periods fail after a few places.
  const auto most = static_cast<size_t>((1 - kLeastEqual) * static_cast<double>(compared));
  size_t different = 0;
  for (size_t i = 0; i + period < symbols.size() && different <= most; i += stride)
    different += symbols[i] == symbols[i + period] ? 0 : 1;
  return different <= most;
}

double GapDifference(std::span<const Nanos> gaps, size_t period) {
  double sum = 0;
  size_t compared = 0;
  for (size_t i = 0; i + period < gaps.size(); i += StrideOf(gaps.size(), period)) {
    ++compared;
    sum += std::fabs(static_cast<double>((gaps[i] - gaps[i + period]).ns()));
  }
  return sum / static_cast<double>(compared);
}

}  // namespace

size_t SequencePeriod(std::span<const uint64_t> symbols, std::span<const Nanos> gaps) {
  std::vector<Candidate> candidates;
  for (size_t period = 1; period <= std::min(kLongest, symbols.size() / kLeastPeriods); ++period) {
    if (Repeats(symbols, period)) candidates.push_back({period, GapDifference(gaps, period)});
  }
  if (candidates.empty()) return 0;
  const auto best = std::min_element(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.gap_difference_ns < b.gap_difference_ns; });
  double gap_sum = 0;
  for (const Nanos gap : gaps) gap_sum += static_cast<double>(gap.ns());
  const double most =
      kAsGood * best->gap_difference_ns + kSlightly * gap_sum / static_cast<double>(gaps.size());
  const auto first = std::find_if(candidates.begin(), candidates.end(),
                                  [&](const Candidate& c) { return c.gap_difference_ns <= most; });
  return first->period;
}

}  // namespace lockstep
