// Converts a recording into a scenario: the stamps of a rank become gaps, durations and edges.
//
// The replay of the unmodified scenario reproduces every stamp, whichever edges are chosen. The reason is
// that gaps are signed, and that they come from the formulas which the simulation evaluates. The edges decide
// which operations move when another one becomes slower.
#ifndef LOCKSTEP_SCENARIO_RECORDED_H_
#define LOCKSTEP_SCENARIO_RECORDED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "scenario/scenario.h"

namespace lockstep::scenario {

// All times count from the common origin of the recording.

enum class RecordedWait : uint8_t {
  kNothing,
  kSomeStream,  // it blocks for an unknown reason; assume the stream whose work ended just before the call
                // did
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
  // For a collective: latest start among the members whose data this rank needs, its own included.
  Nanos needed;
  // All other properties: kind, stream, name, geometry, bytes, group …
  Op shape;
};

// The push and pop of an NVTX range.
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
  // True if all calls that order streams were recorded. If not, edges between streams are inferred from
  // times.
  bool has_events = false;
};

Rank ToProgram(const RecordedRank& recorded);

}  // namespace lockstep::scenario

#endif  // LOCKSTEP_SCENARIO_RECORDED_H_
