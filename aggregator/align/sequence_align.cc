#include "aggregator/align/sequence_align.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

namespace lockstep::align {
namespace {

// Ends of one collective over a slow link were seen up to 3 ms apart on agreeing clocks; 100 ppm over a minute is 6 ms.
constexpr Nanos kEndSpread = Nanos::Millis(4);
// Elements a window may begin later or lose before the search gives up; bounds the work to n * this.
constexpr int kSlack = 96;
// A pair of one-way operations far apart fits between others, but shifts nothing.
constexpr float kFarApart = 0.3f;

bool SameTokens(std::span<const SequenceElement> a, std::span<const SequenceElement> b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) { return x.token == y.token; });
}

struct Band {
  int low;  // of (place in reference - place in other)
  int high;
};

Band SearchBand(size_t reference, size_t other) {
  const int difference = static_cast<int>(reference) - static_cast<int>(other);
  return {std::min(0, difference) - kSlack, std::max(0, difference) + kSlack};
}

// The distance between ends that most pairs of equal tokens share; nullopt when fewer than half the shorter sequence do.
std::optional<Nanos> CommonEndDistance(std::span<const SequenceElement> reference,
                                       std::span<const SequenceElement> other, Band band) {
  std::vector<int64_t> distances;
  for (int j = 0; j < static_cast<int>(other.size()); ++j) {
    const int from = std::max(0, j + band.low);
    const int to = std::min(static_cast<int>(reference.size()) - 1, j + band.high);
    for (int i = from; i <= to; ++i) {
      if (reference[i].token == other[j].token && reference[i].ends_together) distances.push_back((reference[i].end - other[j].end).ns());
    }
  }
  if (distances.empty()) return std::nullopt;
  std::sort(distances.begin(), distances.end());
  size_t best_count = 0;
  size_t best_first = 0;
  size_t first = 0;
  const auto middle = [&](size_t from, size_t count) { return std::llabs(distances[from + count / 2]); };
  for (size_t last = 0; last < distances.size(); ++last) {
    while (distances[last] - distances[first] > kEndSpread.ns()) ++first;
    const size_t count = last - first + 1;
    if (count > best_count || (count == best_count && middle(first, count) < middle(best_first, best_count))) {
      best_count = count;
      best_first = first;
    }
  }
  const auto telling = [](std::span<const SequenceElement> s) {
    return static_cast<size_t>(std::count_if(s.begin(), s.end(), [](const SequenceElement& e) { return e.ends_together; }));
  };
  if (best_count * 2 < std::min(telling(reference), telling(other))) return std::nullopt;
  return Nanos(distances[best_first + best_count / 2]);
}

// Longest common subsequence within the band; among equals the one whose ends lie nearest to `distance`.
class BandedAlignment {
 public:
  BandedAlignment(std::span<const SequenceElement> reference, std::span<const SequenceElement> other, Band band,
                  std::optional<Nanos> distance)
      : reference_(reference), other_(other), band_(band), width_(band.high - band.low + 1), distance_(distance) {}

  std::vector<int32_t> Run() {
    const int n = static_cast<int>(other_.size());
    std::vector<float> previous(width_ + 2, 0.0f);
    std::vector<float> current(width_ + 2, 0.0f);
    step_.assign(static_cast<size_t>(n) * width_, Step::kSkipOther);
    for (int j = 0; j < n; ++j) {
      // Cell k is reference place j + low + k; the same place is cell k + 1 of the row before.
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
    if (reference_[i].token != other_[j].token) return -1.0f;
    if (!distance_) return 1.0f;
    const Nanos off = (reference_[i].end - other_[j].end) - *distance_;
    const float far = std::fabs(static_cast<float>(off.ns()) / static_cast<float>(kEndSpread.ns()));
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
          --j;  // place i - 1 is cell k of the row before
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

  std::span<const SequenceElement> reference_;
  std::span<const SequenceElement> other_;
  Band band_;
  int width_;
  std::optional<Nanos> distance_;
  std::vector<Step> step_;
};

}  // namespace

std::vector<int32_t> AlignSequences(std::span<const SequenceElement> reference,
                                    std::span<const SequenceElement> other) {
  if (SameTokens(reference, other)) {
    std::vector<int32_t> pairs(other.size());
    for (size_t j = 0; j < pairs.size(); ++j) pairs[j] = static_cast<int32_t>(j);
    return pairs;
  }
  if (reference.empty() || other.empty()) return std::vector<int32_t>(other.size(), kUnpaired);
  const Band band = SearchBand(reference.size(), other.size());
  return BandedAlignment(reference, other, band, CommonEndDistance(reference, other, band)).Run();
}

}  // namespace lockstep::align
