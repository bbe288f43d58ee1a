// The operations of one rank's streams in the order of their launches, and the meaning of its events. Both
// map a moment of the host to a unit of the device. rank_graph.h fills them unit by unit.
// Moments are nanoseconds after the graph's origin, on the job's clock.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_DEVICE_STREAMS_H_
#define LOCKSTEP_ANALYSIS_REPLAY_DEVICE_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/replay/graph.h"
#include "base/ids.h"

namespace lockstep::analysis {

inline constexpr double kNever = -std::numeric_limits<double>::infinity();

struct StreamOps {
  std::vector<uint32_t> units;   // in launch order, which is start order
  std::vector<double> launched;  // kNever if unknown
};

class DeviceStreams {
 public:
  // Returns the stream's index. `launched`: kNever if unknown. Such a unit was launched no earlier than the
  // previous one on its stream.
  uint32_t Append(StreamId stream, uint32_t unit, double launched);

  size_t size() const { return streams_.size(); }
  const StreamOps& operator[](uint32_t stream) const { return streams_[stream]; }
  const std::vector<StreamOps>& all() const { return streams_; }
  // Index of the stream; capture::kNone: nothing ran on it.
  uint32_t Find(StreamId stream) const;
  // The last unit of this stream (an index) that was launched at or before the moment, and the first one
  // after it. Both return capture::kNone if the stream has none.
  uint32_t LastLaunchedBy(uint32_t stream, double moment) const;
  uint32_t FirstLaunchedAfter(uint32_t stream, double moment) const;
  // The last operation before `unit` that had ended by the moment, on the unit's stream (an index);
  // capture::kNone: none had.
  uint32_t LastEndedBy(uint32_t stream, uint32_t unit, double moment, const Graph& graph) const;
  // The gap that the device needs between two operations of a stream; nullopt: no two operations have a gap.
  std::optional<double> ShortGap(const Graph& graph) const;

 private:
  absl::flat_hash_map<StreamId, uint32_t> index_;
  StreamId last_stream_;
  uint32_t last_ = 0;  // its index
  std::vector<StreamOps> streams_;
};

class EventRecords {
 public:
  // `event` was recorded on `stream` by a call that began at `moment`.
  void Add(uint32_t event, double moment, StreamId stream) { records_[event].push_back({moment, stream}); }
  // Call once, after the last Add().
  void Sort();
  bool empty() const { return records_.empty(); }
  // The last device operation that `event` represented at a moment of the host; capture::kNone: unknown.
  uint32_t RecordedBefore(uint32_t event, double moment, const DeviceStreams& streams) const;

 private:
  struct Recorded {
    double at;
    StreamId stream;
  };
  absl::flat_hash_map<uint32_t, std::vector<Recorded>> records_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_DEVICE_STREAMS_H_
