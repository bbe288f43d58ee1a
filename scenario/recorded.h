// From what was recorded to what would happen again: a rank's stamps become a scenario's gaps, durations and
// edges.
//
// Whatever edges are chosen, the replay of the unmodified scenario gives every stamp back exactly, because
// gaps are signed and derived from the same formulas that the simulation evaluates. The edges decide what
// moves when something becomes slower.
#ifndef LOCKSTEP_COMMON_SCENARIO_RECORDED_H_
#define LOCKSTEP_COMMON_SCENARIO_RECORDED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "scenario/scenario.h"

namespace lockstep::scenario {

// All times are distances from the recording's common origin.

enum class RecordedWait : uint8_t {
  kNothing,
  kSomeStream,  // it blocks, but what for is not recorded: the stream whose work ended just before it did
  kStreams,
  kAllStreams,
};

enum class RecordedEvent : uint8_t { kNone, kRecord, kWait };

struct RecordedCall {
  Nanos start;
  Nanos end;
  uint32_t thread = 0;  // into RecordedRank::threads
  uint32_t cbid = 0;
  bool driver = false;
  RecordedWait wait = RecordedWait::kNothing;
  std::vector<uint32_t> wait_streams;
  RecordedEvent event_kind = RecordedEvent::kNone;
  uint32_t event = 0;
  uint32_t event_stream = 0;
};

struct RecordedWork {
  Nanos start;
  Nanos end;
  uint32_t call = kNoIndex;  // into RecordedRank::calls
  // Collectives: latest start among the members whose data this rank needs, its own included.
  Nanos needed;
  // Everything that stamps do not say: kind, stream, name, geometry, bytes, group …
  Op shape;
};

// A push and pop of an NVTX range.
struct RecordedRange {
  Nanos start;
  Nanos end;
  uint32_t thread = 0;
  uint32_t name = 0;
};

struct RecordedRank {
  std::string host;
  uint32_t device = 0;
  std::vector<uint32_t> streams;
  std::vector<uint32_t> threads;
  std::vector<RecordedCall> calls;  // sorted by start
  std::vector<RecordedWork> work;
  std::vector<RecordedRange> ranges;  // not overlapping on a thread
  // Are all calls that order streams there? If not, edges between streams are inferred from times.
  bool has_events = false;
};

Rank ToProgram(const RecordedRank& recorded);

}  // namespace lockstep::scenario

#endif  // LOCKSTEP_COMMON_SCENARIO_RECORDED_H_
