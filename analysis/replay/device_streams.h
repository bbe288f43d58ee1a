// The operations of one rank's streams in the order in which the host issued them, and what its events stand
// for: from a moment of the host to the unit of the device. For rank_graph.h, which fills both unit by unit.
// Moments are nanoseconds after the graph's origin, on the job's clock.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_DEVICE_STREAMS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_DEVICE_STREAMS_H_

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
  std::vector<double> launched;  // kNever where unknown
};

class DeviceStreams {
 public:
  // Returns the stream's place. `launched`: kNever where it is unknown; such a unit was issued no earlier
  // than the one before it on its stream.
  uint32_t Append(StreamId stream, uint32_t unit, double launched);

  size_t size() const { return streams_.size(); }
  const StreamOps& operator[](uint32_t stream) const { return streams_[stream]; }
  const std::vector<StreamOps>& all() const { return streams_; }
  // Its place; store::kNone: nothing ran on it.
  uint32_t Find(StreamId stream) const;
  // Of the stream at this place, the last unit issued at or before the moment, the first one after it;
  // store::kNone: none, or no such stream.
  uint32_t LastLaunchedBy(uint32_t stream, double moment) const;
  uint32_t FirstLaunchedAfter(uint32_t stream, double moment) const;
  // The last of the operations before `unit` on its stream, at this place, that had ended by the moment;
  // store::kNone: none had.
  uint32_t LastEndedBy(uint32_t stream, uint32_t unit, double moment, const Graph& graph) const;
  // How long the device takes from one operation of a stream to the next; nullopt: no two lie apart.
  std::optional<double> ShortGap(const Graph& graph) const;

 private:
  absl::flat_hash_map<StreamId, uint32_t> index_;
  StreamId last_stream_;
  uint32_t last_ = 0;  // its place
  std::vector<StreamOps> streams_;
};

class EventRecords {
 public:
  // `event` was recorded on `stream` by a call that began at `moment`.
  void Add(uint32_t event, double moment, StreamId stream) { records_[event].push_back({moment, stream}); }
  // Once, after the last Add().
  void Sort();
  bool empty() const { return records_.empty(); }
  // The last device operation that `event` stood for at a moment of the host; store::kNone: none known.
  uint32_t RecordedBefore(uint32_t event, double moment, const DeviceStreams& streams) const;

 private:
  struct Recorded {
    double at;
    StreamId stream;
  };
  absl::flat_hash_map<uint32_t, std::vector<Recorded>> records_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_DEVICE_STREAMS_H_
