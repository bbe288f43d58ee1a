// NestedLanes puts the slices of one thread on lanes, so that the slices of a lane nest or follow one
// another.
#ifndef LOCKSTEP_FORMATS_COMMON_NESTED_LANES_H_
#define LOCKSTEP_FORMATS_COMMON_NESTED_LANES_H_

#include <cstddef>
#include <vector>

#include "base/time.h"

namespace lockstep::formats {

// The caller offers slices in the order of their start, and the longest first if starts are equal. A slice
// that overlaps an open slice without nesting goes to the next lane. Such slices come from ranges that were
// not closed in the reverse order of their opening.
class NestedLanes {
 public:
  // Returns the lane of the slice. Calls `close(lane, end)` for each slice that ends at or before `start`,
  // innermost first, in the lanes up to the returned one.
  template <typename Close>
  size_t Place(HostTime start, HostTime end, Close close) {
    size_t lane = 0;
    for (;; ++lane) {
      if (lane == open_.size()) open_.emplace_back();
      CloseUntil(lane, start, end, close);
      if (open_[lane].empty() || open_[lane].back() >= end) break;
    }
    open_[lane].push_back(end);
    return lane;
  }

  template <typename Close>
  void CloseAll(Close close) {
    for (size_t lane = 0; lane < open_.size(); ++lane) {
      for (; !open_[lane].empty(); open_[lane].pop_back()) close(lane, open_[lane].back());
    }
  }

 private:
  template <typename Close>
  void CloseUntil(size_t lane, HostTime start, HostTime end, Close close) {
    std::vector<HostTime>& ends = open_[lane];
    // An empty slice at the end of another slice lies inside it.
    while (!ends.empty() && (ends.back() < start || (ends.back() == start && end > start))) {
      close(lane, ends.back());
      ends.pop_back();
    }
  }

  std::vector<std::vector<HostTime>> open_;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_NESTED_LANES_H_
