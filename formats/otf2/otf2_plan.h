// Plans the layout of a capture in an OTF2 archive: the tree of hosts, ranks and devices, a location per lane
// of each stream, and the members of each communicator.
#ifndef LOCKSTEP_FORMATS_OTF2_OTF2_PLAN_H_
#define LOCKSTEP_FORMATS_OTF2_OTF2_PLAN_H_

#include <otf2/otf2.h>

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/time.h"
#include "capture/align/clock_model.h"
#include "capture/model/capture.h"
#include "formats/otf2/otf2_definitions.h"

namespace lockstep::formats {

// The kind of record that an operation has. An operation of unknown kind, or one that the format does not
// have, gets none.
enum class Otf2Record : uint8_t { kNone, kCollective, kSend, kReceive };
Otf2Record Otf2RecordOf(capture::CollectiveOp op);

// A communicator holds the streams on which its kernels ran, usually one per rank.
struct Otf2Communicator {
  OTF2_CommRef ref = OTF2_UNDEFINED_COMM;
  // For each rank in the group, the place of its first stream among the members. OTF2_UNDEFINED_UINT32: no
  // stream was recorded.
  std::vector<uint32_t> places;
  absl::flat_hash_map<RankId, uint32_t> rank_in_group;
};

struct Otf2Rank {
  OTF2_LocationGroupRef process = 0;
  OTF2_LocationRef first_stream = 0;  // its lanes are [first_stream, first_stream + streams)
  uint32_t streams = 0;
  std::vector<uint32_t> lane_of;  // by activity; relative to first_stream
};

struct Otf2Plan {
  JobTime zero;                            // the earliest stamp
  std::vector<Otf2Rank> ranks;             // as in the capture
  std::vector<Otf2Communicator> by_group;  // as in the capture
};

// Plans the archive and adds its definitions. `capture` is Finish()ed.
Otf2Plan PlanOtf2(const capture::Capture& capture, const capture::ClockModel& clock,
                  Otf2Definitions& definitions);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_OTF2_OTF2_PLAN_H_
