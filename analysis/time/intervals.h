// Exact algebra on sets of instants, in integer nanoseconds.
//
// A set is a vector of half-open intervals that are sorted, disjoint, not touching and not empty. Every
// function takes and returns such sets; Normalize makes one from any intervals. All are O(n), and Normalize
// is O(n log n) unless the intervals are sorted.
#ifndef LOCKSTEP_ANALYSIS_TIME_INTERVALS_H_
#define LOCKSTEP_ANALYSIS_TIME_INTERVALS_H_

#include <algorithm>
#include <vector>

#include "base/time.h"

namespace lockstep::analysis {

template <typename T>
using IntervalSet = std::vector<Interval<T>>;

// Adds `next` to a set whose last interval does not start after it.
template <typename T>
void AppendInOrder(IntervalSet<T>& set, Interval<T> next) {
  if (next.end <= next.start) return;
  if (set.empty() || set.back().end < next.start) {
    set.push_back(next);
  } else if (set.back().end < next.end) {
    set.back().end = next.end;
  }
}

// Returns the union of intervals, which may be in any order, overlap, or be empty.
template <typename T>
IntervalSet<T> Normalize(std::vector<Interval<T>> intervals) {
  const auto earlier = [](const Interval<T>& a, const Interval<T>& b) { return a.start < b.start; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), earlier)) {
    std::sort(intervals.begin(), intervals.end(), earlier);
  }
  IntervalSet<T> set;
  set.reserve(intervals.size());
  for (const Interval<T>& i : intervals) AppendInOrder(set, i);
  return set;
}

template <typename T>
Nanos Measure(const IntervalSet<T>& set) {
  Nanos sum;
  for (const Interval<T>& i : set) sum += i.length();
  return sum;
}

template <typename T>
IntervalSet<T> Union(const IntervalSet<T>& a, const IntervalSet<T>& b) {
  IntervalSet<T> out;
  out.reserve(a.size() + b.size());
  auto i = a.begin();
  auto j = b.begin();
  while (i != a.end() || j != b.end()) {
    const bool from_a = j == b.end() || (i != a.end() && i->start < j->start);
    AppendInOrder(out, from_a ? *i++ : *j++);
  }
  return out;
}

template <typename T>
IntervalSet<T> Intersect(const IntervalSet<T>& a, const IntervalSet<T>& b) {
  IntervalSet<T> out;
  auto i = a.begin();
  auto j = b.begin();
  while (i != a.end() && j != b.end()) {
    AppendInOrder(out, Interval<T>{std::max(i->start, j->start), std::min(i->end, j->end)});
    (i->end < j->end) ? ++i : ++j;
  }
  return out;
}

// a without b.
template <typename T>
IntervalSet<T> Subtract(const IntervalSet<T>& a, const IntervalSet<T>& b) {
  IntervalSet<T> out;
  out.reserve(a.size());
  auto j = b.begin();
  for (Interval<T> left : a) {
    while (j != b.end() && j->end <= left.start) ++j;
    for (auto k = j; k != b.end() && k->start < left.end; ++k) {
      AppendInOrder(out, Interval<T>{left.start, k->start});
      left.start = std::max(left.start, k->end);
    }
    AppendInOrder(out, left);
  }
  return out;
}

// The part of `set` inside `window`.
template <typename T>
IntervalSet<T> Clip(const IntervalSet<T>& set, Interval<T> window) {
  IntervalSet<T> out;
  auto first = std::partition_point(set.begin(), set.end(),
                                    [&](const Interval<T>& i) { return i.end <= window.start; });
  for (; first != set.end() && first->start < window.end; ++first) {
    AppendInOrder(out, Interval<T>{std::max(first->start, window.start), std::min(first->end, window.end)});
  }
  return out;
}

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_TIME_INTERVALS_H_
