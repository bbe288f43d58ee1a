// Overlapping activities of one stream spread over lanes, none of which overlaps itself.
//
// Viewers draw a track as a stack: of two slices that overlap without nesting they drop one. Kernels of one
// stream overlap where a dependent launch starts early.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_STREAM_LANES_H_
#define LOCKSTEP_AGGREGATOR_TRACE_STREAM_LANES_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/time.h"

namespace lockstep::trace {

// Activities are offered in the order of their start.
class StreamLanes {
 public:
  // The lane of the next activity of `stream`, from 0; the lowest that is free.
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

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_STREAM_LANES_H_
