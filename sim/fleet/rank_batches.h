// Encodes the rows of one rank of a FleetJob as the batches that a daemon would send.
#ifndef LOCKSTEP_SIM_FLEET_RANK_BATCHES_H_
#define LOCKSTEP_SIM_FLEET_RANK_BATCHES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "sim/fleet/fleet_job.h"

namespace lockstep::sim {

struct RankBatch {
  std::string blocks;  // of wire/columns
  uint64_t rows = 0;
};

// The place of virtual time 0 on the clocks of the rank's host.
struct FleetEpoch {
  HostTime realtime;
  MonoTime monotonic;
};

// Returns the batches in the order of their rows. The first one begins with all strings, the communicator and
// two clock readings. Any thread.
std::vector<RankBatch> EncodeRank(const FleetJob& job, uint32_t rank, const FleetEpoch& epoch);

// Decodes all blocks. Returns the processor time of this thread.
Nanos TimeToDecode(const std::vector<RankBatch>& batches);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_FLEET_RANK_BATCHES_H_
