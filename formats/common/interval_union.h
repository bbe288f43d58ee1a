// The union of intervals that come in any order, kept small while they come.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_INTERVAL_UNION_H_
#define LOCKSTEP_AGGREGATOR_TRACE_INTERVAL_UNION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace lockstep::trace {

// Memory follows the number of disjoint stretches, up to `most`: then the narrowest gaps between them are
// closed, as many as are needed to have half as many stretches. Empty intervals add nothing.
class IntervalUnion {
 public:
  static constexpr size_t kMost = 1024 * 1024;

  explicit IntervalUnion(size_t most = kMost) : most_(most), merge_at_(std::min(most, kFirstMerge)) {}

  void Add(HostTime start, HostTime end) {
    if (end <= start) return;
    // Operators nest and follow one another: most touch the one before.
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

  // Sorted and disjoint; leaves the union empty.
  std::vector<HostInterval> Take() {
    Merge();
    return std::exchange(parts_, {});
  }

  // The widest gap that was closed, which the stretches now hold; 0: none was, and the union is exact.
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

  // 0 where they touch. Of hostile stamps the difference may not fit: it is wide then.
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

// What a reader of the report must know of a file's unions; empty: they are exact.
inline std::string DescribeClosedGaps(const IntervalUnion& operators, const IntervalUnion& data_loader) {
  const Nanos widest = std::max(operators.closed_gap(), data_loader.closed_gap());
  if (widest == Nanos()) return "";
  return " holds more separate CPU operators than are kept apart: pauses of up to " +
         std::to_string(widest.ns()) + " ns between them count as operators";
}

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_INTERVAL_UNION_H_
