// IntervalUnion collects intervals in any order and keeps their union in bounded memory.
#ifndef LOCKSTEP_FORMATS_COMMON_INTERVAL_UNION_H_
#define LOCKSTEP_FORMATS_COMMON_INTERVAL_UNION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace lockstep::formats {

// Memory grows with the number of disjoint intervals, up to `most` of them. At that limit, the union closes
// its narrowest gaps until half as many intervals are left. Empty intervals add nothing. One thread.
class IntervalUnion {
 public:
  static constexpr size_t kMost = 1024 * 1024;

  explicit IntervalUnion(size_t most = kMost) : most_(most), merge_at_(std::min(most, kFirstMerge)) {}

  void Add(HostTime start, HostTime end) {
    if (end <= start) return;
    // Operators nest and follow one another, so most of them touch the previous one.
    if (!parts_.empty() && start <= parts_.back().end && end >= parts_.back().start) {
      parts_.back().start = std::min(parts_.back().start, start);
      parts_.back().end = std::max(parts_.back().end, end);
      return;
    }
    parts_.push_back({start, end});
    if (parts_.size() >= merge_at_) {
      Merge();
      if (2 * parts_.size() > most_) CloseGaps();
      merge_at_ = std::max(std::min(most_, kFirstMerge), 2 * parts_.size());
    }
  }

  // Returns the intervals, sorted and disjoint. The union is empty afterwards.
  std::vector<HostInterval> Take() {
    Merge();
    return std::exchange(parts_, {});
  }

  // Width of the widest gap that was closed and now counts as part of an interval. 0: the union is exact.
  Nanos closed_gap() const { return closed_gap_; }

 private:
  static constexpr size_t kFirstMerge = 16 * 1024;

  void Merge() {
    std::sort(parts_.begin(), parts_.end(),
              [](const HostInterval& a, const HostInterval& b) { return a.start < b.start; });
    JoinAcross(Nanos());
  }

  void CloseGaps() {
    std::vector<Nanos> gaps;
    gaps.reserve(parts_.size());
    for (size_t i = 1; i < parts_.size(); ++i) gaps.push_back(Gap(parts_[i - 1], parts_[i]));
    const auto last_closed = gaps.begin() + static_cast<ptrdiff_t>(gaps.size() / 2);
    std::nth_element(gaps.begin(), last_closed, gaps.end());
    closed_gap_ = std::max(closed_gap_, *last_closed);
    JoinAcross(*last_closed);
  }

  // Returns 0 if the intervals touch. The difference of invalid time stamps may not fit; it then counts as
  // the widest gap.
  static Nanos Gap(const HostInterval& before, const HostInterval& after) {
    if (after.start <= before.end) return Nanos();
    int64_t gap = 0;
    return __builtin_sub_overflow(after.start.ns(), before.end.ns(), &gap) ? Nanos::Max() : Nanos(gap);
  }

  // `parts_` are sorted by their starts.
  void JoinAcross(Nanos gap) {
    size_t kept = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (kept != 0 && Gap(parts_[kept - 1], parts_[i]) <= gap) {
        parts_[kept - 1].end = std::max(parts_[kept - 1].end, parts_[i].end);
      } else {
        parts_[kept++] = parts_[i];
      }
    }
    parts_.resize(kept);
  }

  size_t most_;
  size_t merge_at_;
  Nanos closed_gap_;
  std::vector<HostInterval> parts_;
};

// Describes, for a note in the report, the gaps that a file's unions closed. Empty: the unions are exact.
inline std::string DescribeClosedGaps(const IntervalUnion& operators, const IntervalUnion& data_loader) {
  const Nanos widest = std::max(operators.closed_gap(), data_loader.closed_gap());
  if (widest == Nanos()) return "";
  return " has too many separate CPU operators: gaps of up to " + std::to_string(widest.ns()) +
         " ns between them count as operators";
}

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_INTERVAL_UNION_H_
