// Selects the communication kernels of a capture that are replayed as collectives, and their operations.
#ifndef LOCKSTEP_FORMATS_SCENARIO_SCENARIO_COLLECTIVES_H_
#define LOCKSTEP_FORMATS_SCENARIO_SCENARIO_COLLECTIVES_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/time.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "scenario/scenario.h"

namespace lockstep::formats {

struct CollectivePlan {
  uint32_t group;  // index into CollectivePlans::groups
  scenario::Collective op;
  int32_t peer;    // rank in the group
  JobTime needed;  // latest start among the kernels whose data the rank needs, its own included
  // Sends and receives: all messages of the kernel. `op` and `peer` are those of the first.
  std::vector<scenario::Message> messages;
};

struct CollectivePlans {
  std::vector<scenario::Group> groups;  // members are indices into Capture::ranks
  std::vector<absl::flat_hash_map<uint32_t, CollectivePlan>> by_rank;  // by activity
};

// Plans complete instances that have the same order on all their members. Only a kernel of sends and receives
// may hold several of them; it is planned if all its messages are (message_kernels.h). All other kernels are
// left out and replayed as plain kernels. `shift` moves each rank's stamps onto the job's clock.
CollectivePlans PlanCollectives(const capture::Capture& capture, const capture::Matches& matches,
                                const std::vector<Nanos>& shift, uint64_t buffered_bytes);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_SCENARIO_SCENARIO_COLLECTIVES_H_
