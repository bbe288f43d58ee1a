// Slices of one thread on lanes where each nests in, or follows, the one before.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NESTED_LANES_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NESTED_LANES_H_

#include <cstddef>
#include <vector>

#include "base/time.h"

namespace lockstep::trace {

// Slices are offered by start, of equal starts the longest first. A slice that would stick out of an open one
// goes to the next lane; this happens to ranges that were opened and closed out of order.
class NestedLanes {
 public:
  // The lane for the slice. `close(lane, end)` is called for every slice that ends at or before `start` in
  // the lanes looked at, innermost first.
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
    // An empty slice at the very end of another one still lies inside it.
    while (!ends.empty() && (ends.back() < start || (ends.back() == start && end > start))) {
      close(lane, ends.back());
      ends.pop_back();
    }
  }

  std::vector<std::vector<HostTime>> open_;
};

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NESTED_LANES_H_
