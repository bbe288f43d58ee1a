// Where everything of a capture goes in an OTF2 archive: the tree of hosts, ranks and devices, a location for
// each lane of each stream, and who is who in each communicator.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_OTF2_PLAN_H_
#define LOCKSTEP_AGGREGATOR_TRACE_OTF2_PLAN_H_

#include <otf2/otf2.h>

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/time.h"
#include "capture/align/clock_model.h"
#include "capture/model/capture.h"
#include "formats/otf2/otf2_definitions.h"

namespace lockstep::trace {

// Which record an operation has. Operations that the format has no word for, and those of unknown kind, have
// none.
enum class Otf2Record : uint8_t { kNone, kCollective, kSend, kReceive };
Otf2Record Otf2RecordOf(store::CollectiveOp op);

// A communicator is the streams its kernels ran on: usually one of each rank.
struct Otf2Communicator {
  OTF2_CommRef ref = OTF2_UNDEFINED_COMM;
  // Of each rank in the group: place of its first stream among the members; OTF2_UNDEFINED_UINT32: none was
  // recorded.
  std::vector<uint32_t> places;
  absl::flat_hash_map<RankId, uint32_t> rank_in_group;
};

struct Otf2Rank {
  OTF2_LocationGroupRef process = 0;
  OTF2_LocationRef first_stream = 0;  // its lanes are [first_stream, first_stream + streams)
  uint32_t streams = 0;
  std::vector<uint32_t> lane_of;  // by activity: minus first_stream
};

struct Otf2Plan {
  JobTime zero;                            // the earliest stamp
  std::vector<Otf2Rank> ranks;             // as in the capture
  std::vector<Otf2Communicator> by_group;  // as in the capture
};

// Defines what it plans. `capture` is Finish()ed.
Otf2Plan PlanOtf2(const store::Capture& capture, const align::ClockModel& clock,
                  Otf2Definitions& definitions);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_OTF2_PLAN_H_
