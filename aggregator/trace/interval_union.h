// The union of intervals that come in any order, kept small while they come.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_INTERVAL_UNION_H_
#define LOCKSTEP_AGGREGATOR_TRACE_INTERVAL_UNION_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "common/base/time.h"

namespace lockstep::trace {

// Memory follows the number of disjoint stretches, not of intervals added. Empty intervals add nothing.
class IntervalUnion {
 public:
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
      merge_at_ = std::max(kFirstMerge, 2 * parts_.size());
    }
  }

  // Sorted and disjoint; leaves the union empty.
  std::vector<HostInterval> Take() {
    Merge();
    return std::exchange(parts_, {});
  }

 private:
  static constexpr size_t kFirstMerge = 16 * 1024;

  void Merge() {
    std::sort(parts_.begin(), parts_.end(),
              [](const HostInterval& a, const HostInterval& b) { return a.start < b.start; });
    size_t kept = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (kept != 0 && parts_[i].start <= parts_[kept - 1].end) {
        parts_[kept - 1].end = std::max(parts_[kept - 1].end, parts_[i].end);
      } else {
        parts_[kept++] = parts_[i];
      }
    }
    parts_.resize(kept);
  }

  std::vector<HostInterval> parts_;
  size_t merge_at_ = kFirstMerge;
};

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_INTERVAL_UNION_H_
