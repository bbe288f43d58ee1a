#include "capture/align/sequence_align.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/median.h"

namespace lockstep::capture {
namespace {

// Over a slow link, ends of one collective were seen up to 3 ms apart on agreeing clocks.
constexpr double kEndSpreadNs = 4e6;
// Widths of the search for a common distance, narrowest first: exit skew, drift over the window, slow links.
constexpr std::array kWidths = {60e3, 250e3, 1e6, kEndSpreadNs};
// On one clock, the tolerance is this many widths. A stretch that two lost records shift by one must not fit.
constexpr double kBeyondWidth = 4;
// A window may begin this many elements later, or lose this many, before the search gives up. Bounds the work
// to n * kSlack.
constexpr int kSlack = 96;
// Score of two one-way operations whose ends lie far apart. They fit between other pairs, but shift nothing.
constexpr float kFarApart = 0.3f;
// A pair may lie this many times the median distance from the common one. kLeastToleranceNs allows for the
// rounding of time stamps.
constexpr double kScatters = 12;
constexpr double kLeastToleranceNs = 40e3;
constexpr size_t kSample = 160;
// Ends do not identify pairs if kScatters times their scatter exceeds this share of the usual interval
// between elements. Their scatter must also exceed kUnclearNs.
constexpr double kOfInterval = 0.5;
constexpr double kUnclearNs = 20e3;
constexpr size_t kLeastElementsForSlope = 12;
constexpr size_t kMostElementsForSlope = 48;
constexpr size_t kLeastForShift = 4;
constexpr int kMostLostTogether = 24;
constexpr double kMostDrift = 4e-4;
// Two unpaired elements between the same neighbours are one collective only if their ends are nearer than
// this share of the interval to the neighbours.
constexpr double kClearlyNearer = 0.25;

using Sequence = std::span<const SequenceElement>;

double EndsApart(const SequenceElement& reference, const SequenceElement& other) {
  return static_cast<double>((reference.end - other.end).ns());
}

bool SameSignatures(Sequence a, Sequence b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
           return x.signature == y.signature;
         });
}

struct Band {
  int low;  // place in reference minus place in other
  int high;
};

Band SearchBand(size_t reference, size_t other) {
  const int difference = static_cast<int>(reference) - static_cast<int>(other);
  return {std::min(0, difference) - kSlack, std::max(0, difference) + kSlack};
}

// The time by which the reference's ends follow the other's: at + slope * (t - origin), where t is the
// other's end.
struct Distance {
  double at = 0;
  double slope = 0;
  HostTime origin;
  double tolerance = kEndSpreadNs;
  double For(const SequenceElement& other) const {
    return at + slope * static_cast<double>((other.end - origin).ns());
  }
};

size_t CountSymmetric(Sequence s) {
  return static_cast<size_t>(
      std::count_if(s.begin(), s.end(), [](const SequenceElement& e) { return e.ends_together; }));
}

struct Window {
  size_t first = 0;
  size_t count = 0;
};

// The window of this width with the most values. Among equals, the one nearest to 0.
Window Fullest(const std::vector<double>& sorted, double width) {
  Window best;
  const auto middle = [&](const Window& w) { return std::fabs(sorted[w.first + w.count / 2]); };
  size_t first = 0;
  for (size_t last = 0; last < sorted.size(); ++last) {
    while (sorted[last] - sorted[first] > width) ++first;
    const Window w{first, last - first + 1};
    if (w.count > best.count || (w.count == best.count && middle(w) < middle(best))) best = w;
  }
  return best;
}

// The distance between ends that most pairs of equal signatures share, in the narrowest width that holds half
// of them. nullopt: no width does. Two clocks may drift and be set, so the other half may lie up to
// kEndSpreadNs away. A common clock does neither.
std::optional<Distance> CommonEndDistance(Sequence reference, Sequence other, Band band, double most) {
  const size_t skip = other.size() > kSample ? (other.size() - kSample) / 2 : 0;
  const Sequence some = other.subspan(skip, std::min(other.size(), kSample));
  std::vector<double> distances;
  for (size_t k = 0; k < some.size(); ++k) {
    const int j = static_cast<int>(skip + k);
    const int from = std::max(0, j + band.low);
    const int to = std::min(static_cast<int>(reference.size()) - 1, j + band.high);
    for (int i = from; i <= to; ++i) {
      if (reference[i].signature != some[k].signature || !reference[i].ends_together) continue;
      const double apart = EndsApart(reference[i], some[k]);
      if (std::fabs(apart) <= most) distances.push_back(apart);
    }
  }
  if (distances.empty()) return std::nullopt;
  std::sort(distances.begin(), distances.end());
  const size_t enough = (std::min(CountSymmetric(reference), CountSymmetric(some)) + 1) / 2;
  for (const double width : kWidths) {
    const Window w = Fullest(distances, width);
    if (w.count < enough) continue;
    const double tolerance =
        most <= kEndSpreadNs ? std::min(kEndSpreadNs, kBeyondWidth * width) : kEndSpreadNs;
    return Distance{
        .at = distances[w.first + w.count / 2], .slope = 0, .origin = other[0].end, .tolerance = tolerance};
  }
  return std::nullopt;
}

// Longest common subsequence within the band. Among equally long ones, the one whose ends lie nearest to
// `distance`.
class BandedAlignment {
 public:
  BandedAlignment(Sequence reference, Sequence other, Band band, std::optional<Distance> distance)
      : reference_(reference),
        other_(other),
        band_(band),
        width_(band.high - band.low + 1),
        distance_(distance) {}

  std::vector<int32_t> Run() {
    const int n = static_cast<int>(other_.size());
    std::vector<float> previous(width_ + 2, 0.0f);
    std::vector<float> current(width_ + 2, 0.0f);
    step_.assign(static_cast<size_t>(n) * width_, Step::kSkipOther);
    for (int j = 0; j < n; ++j) {
      // Cell k is reference place j + low + k. In the previous row, the same place is cell k + 1.
      for (int k = 0; k < width_; ++k) current[k] = Best(j, k, previous, current);
      current[width_] = current[width_ + 1] = current[width_ - 1];
      std::swap(previous, current);
    }
    return Trace();
  }

 private:
  enum class Step : uint8_t { kPair, kSkipOther, kSkipReference };

  float PairScore(int i, int j) const {
    if (i < 0 || i >= static_cast<int>(reference_.size())) return -1.0f;
    if (reference_[i].signature != other_[j].signature) return -1.0f;
    if (!distance_) return 1.0f;
    const double off = EndsApart(reference_[i], other_[j]) - distance_->For(other_[j]);
    const auto far = static_cast<float>(std::fabs(off) / distance_->tolerance);
    if (far <= 1.0f) return 1.5f - far;
    return reference_[i].ends_together ? -1.0f : kFarApart;
  }

  float Best(int j, int k, const std::vector<float>& previous, const std::vector<float>& current) {
    const int i = j + band_.low + k;
    float best = previous[k + 1];
    Step step = Step::kSkipOther;
    if (k > 0 && current[k - 1] > best) {
      best = current[k - 1];
      step = Step::kSkipReference;
    }
    const float score = PairScore(i, j);
    if (score >= 0 && previous[k] + score > best) {
      best = previous[k] + score;
      step = Step::kPair;
    }
    step_[static_cast<size_t>(j) * width_ + k] = step;
    return best;
  }

  std::vector<int32_t> Trace() const {
    std::vector<int32_t> pairs(other_.size(), kUnpaired);
    int j = static_cast<int>(other_.size()) - 1;
    int k = width_ - 1;
    while (j >= 0 && k >= 0) {
      switch (step_[static_cast<size_t>(j) * width_ + k]) {
        case Step::kPair:
          pairs[j] = j + band_.low + k;
          --j;  // place i - 1 is cell k of the previous row
          break;
        case Step::kSkipOther:
          --j;
          k = std::min(k + 1, width_ - 1);
          break;
        case Step::kSkipReference:
          --k;
          break;
      }
    }
    return pairs;
  }

  Sequence reference_;
  Sequence other_;
  Band band_;
  int width_;
  std::optional<Distance> distance_;
  std::vector<Step> step_;
};

// Fits the common distance as a line through the pairs, with a tolerance from their scatter.
std::optional<Distance> Sharpened(Sequence reference, Sequence other, const std::vector<int32_t>& pairs) {
  std::vector<std::pair<double, double>> points;  // the other's end, distance
  const HostTime origin = other[other.size() / 2].end;
  for (size_t j = 0; j < pairs.size(); ++j) {
    if (pairs[j] == kUnpaired || !reference[static_cast<size_t>(pairs[j])].ends_together) continue;
    points.emplace_back(static_cast<double>((other[j].end - origin).ns()),
                        EndsApart(reference[static_cast<size_t>(pairs[j])], other[j]));
  }
  if (points.empty()) return std::nullopt;
  Distance line{.at = 0, .slope = 0, .origin = origin};
  if (points.size() >= kLeastElementsForSlope) {
    std::vector<double> slopes;
    const size_t stride = (points.size() + kMostElementsForSlope - 1) / kMostElementsForSlope;
    for (size_t i = 0; i < points.size(); i += stride) {
      for (size_t j = i + stride; j < points.size(); j += stride) {
        const double x = points[j].first - points[i].first;
        if (x > 0) slopes.push_back((points[j].second - points[i].second) / x);
      }
    }
    if (!slopes.empty()) line.slope = std::clamp(UpperMedianInPlace(slopes), -kMostDrift, kMostDrift);
  }
  std::vector<double> rest;
  for (const auto& [x, y] : points) rest.push_back(y - line.slope * x);
  line.at = UpperMedianInPlace(rest);
  for (double& r : rest) r = std::fabs(r - line.at);
  line.tolerance = std::clamp(kScatters * UpperMedianInPlace(rest), kLeastToleranceNs, kEndSpreadNs);
  return line;
}

// Pairs two elements, one on each side, that a tight tolerance left between two pairs. If they have one
// signature and their ends are nearer than the neighbours, they are a pair whose ends scatter. Two records
// lost in a row, one on each side, look alike, but their ends are a whole interval apart.
void PairLeftovers(Sequence reference, Sequence other, const Distance& distance,
                   std::vector<int32_t>& pairs) {
  for (size_t j = 1; j + 1 < pairs.size(); ++j) {
    if (pairs[j] != kUnpaired || pairs[j - 1] == kUnpaired || pairs[j + 1] != pairs[j - 1] + 2) continue;
    const auto i = static_cast<size_t>(pairs[j - 1] + 1);
    if (reference[i].signature != other[j].signature) continue;
    const double off = std::fabs(EndsApart(reference[i], other[j]) - distance.For(other[j]));
    const double room = std::min(static_cast<double>((other[j].end - other[j - 1].end).ns()),
                                 static_cast<double>((other[j + 1].end - other[j].end).ns()));
    if (off <= std::min(kEndSpreadNs, kClearlyNearer * room)) pairs[j] = static_cast<int32_t>(i);
  }
}

// True if an element's end fits a neighbour of its counterpart instead. This happens between records that
// were lost at different places on the two sides.
bool AnyElsewhere(Sequence reference, Sequence other, double middle, double usual) {
  const auto n = static_cast<int>(other.size());
  const auto off = [&](int i, int j) {
    return std::fabs(EndsApart(reference[static_cast<size_t>(i)], other[static_cast<size_t>(j)]) - middle);
  };
  for (int j = 0; j < n; ++j) {
    if (!other[static_cast<size_t>(j)].ends_together || off(j, j) <= usual) continue;
    for (int i = std::max(0, j - kMostLostTogether); i <= std::min(n - 1, j + kMostLostTogether); ++i) {
      const double interval = std::fabs(static_cast<double>(
          (reference[static_cast<size_t>(i)].end - reference[static_cast<size_t>(j)].end).ns()));
      const bool same =
          reference[static_cast<size_t>(i)].signature == other[static_cast<size_t>(j)].signature;
      if (i != j && same && 2 * usual < interval && off(i, j) <= usual) return true;
    }
  }
  return false;
}

double UsualInterval(Sequence s) {
  std::vector<double> intervals;
  for (size_t i = 1; i < s.size(); ++i)
    intervals.push_back(static_cast<double>((s[i].end - s[i - 1].end).ns()));
  return intervals.empty() ? 0 : UpperMedianInPlace(intervals);
}

// True if sequences of equal signatures pair element by element. False if another shift keeps the ends
// together better, because the windows are then shifted against each other.
bool InStep(Sequence reference, Sequence other, double most) {
  constexpr int kShifts = 3;
  const size_t n = other.size();
  const size_t stride = std::max<size_t>(1, n / kSample);
  double best = INFINITY;
  int best_shift = 0;
  for (const int shift : {0, -1, 1, -2, 2, -kShifts, kShifts}) {
    std::vector<double> apart;
    for (size_t j = 0; j < n; j += stride) {
      const int i = static_cast<int>(j) + shift;
      if (i < 0 || i >= static_cast<int>(n) || reference[i].signature != other[j].signature ||
          !other[j].ends_together)
        continue;
      apart.push_back(EndsApart(reference[i], other[j]));
    }
    if (apart.empty()) {
      if (shift == 0) return true;  // no element has ends that could decide
      continue;
    }
    if (shift != 0 && (apart.size() < kLeastForShift || apart.size() * 2 * stride < n)) continue;
    const double middle = UpperMedianInPlace(apart);
    for (double& d : apart) d = std::fabs(d - middle);
    double spread = UpperMedianInPlace(apart) + 1e3;
    if (shift == 0 && kScatters * spread > kOfInterval * UsualInterval(other) && spread > kUnclearNs)
      return false;
    if (shift == 0 && AnyElsewhere(reference, other, middle,
                                   std::clamp(kScatters * spread, kLeastToleranceNs, kEndSpreadNs)))
      return false;
    if (std::fabs(middle) > most) spread += std::fabs(middle);
    // A shift must be clearly better, because strictly periodic sequences fit several shifts.
    if (spread < (shift == 0 ? 1.0 : 0.5) * best) {
      best = spread;
      best_shift = shift;
    }
  }
  return best_shift == 0 && best <= kEndSpreadNs;
}

}  // namespace

std::vector<int32_t> AlignSequences(Sequence reference, Sequence other, Nanos clocks_apart) {
  const double most =
      clocks_apart == Nanos::Max() ? INFINITY : static_cast<double>(clocks_apart.ns()) + kEndSpreadNs;
  if (SameSignatures(reference, other) && InStep(reference, other, most)) {
    std::vector<int32_t> pairs(other.size());
    for (size_t j = 0; j < pairs.size(); ++j) pairs[j] = static_cast<int32_t>(j);
    return pairs;
  }
  if (reference.empty() || other.empty()) return std::vector<int32_t>(other.size(), kUnpaired);
  const Band band = SearchBand(reference.size(), other.size());
  const std::optional<Distance> distance = CommonEndDistance(reference, other, band, most);
  if (!distance) return BandedAlignment(reference, other, band, std::nullopt).Run();
  auto rough = BandedAlignment(reference, other, band, distance).Run();
  const std::optional<Distance> sharp = Sharpened(reference, other, rough);
  if (!sharp || sharp->tolerance >= kEndSpreadNs) return rough;
  auto pairs = BandedAlignment(reference, other, band, sharp).Run();
  PairLeftovers(reference, other, *sharp, pairs);
  return pairs;
}

}  // namespace lockstep::capture
