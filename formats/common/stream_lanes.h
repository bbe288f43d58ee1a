// StreamLanes spreads overlapping activities of one stream over lanes without overlaps.
//
// Viewers draw a track as a stack, and drop one of two slices that overlap without nesting. Kernels of one
// stream overlap if a dependent launch starts early.
#ifndef LOCKSTEP_FORMATS_COMMON_STREAM_LANES_H_
#define LOCKSTEP_FORMATS_COMMON_STREAM_LANES_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/time.h"

namespace lockstep::formats {

// The caller offers activities in the order of their start.
class StreamLanes {
 public:
  // Returns the lane of the next activity of `stream`: the lowest free one, from 0.
  uint32_t Place(StreamId stream, HostTime start, HostTime end) {
    std::vector<HostTime>& busy_until = streams_[stream];
    for (uint32_t lane = 0; lane < busy_until.size(); ++lane) {
      if (busy_until[lane] <= start) {
        busy_until[lane] = end;
        return lane;
      }
    }
    busy_until.push_back(end);
    return static_cast<uint32_t>(busy_until.size() - 1);
  }

 private:
  absl::flat_hash_map<StreamId, std::vector<HostTime>> streams_;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_STREAM_LANES_H_
