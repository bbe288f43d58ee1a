// Which communication kernels of a capture are replayed as collectives, and as which.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_SCENARIO_COLLECTIVES_H_
#define LOCKSTEP_AGGREGATOR_TRACE_SCENARIO_COLLECTIVES_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/time.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "scenario/scenario.h"

namespace lockstep::trace {

struct CollectivePlan {
  uint32_t group;  // into CollectivePlans::groups
  scenario::Collective op;
  int32_t peer;    // rank in the group
  JobTime needed;  // latest start among the members whose data the rank needs, its own included
};

struct CollectivePlans {
  std::vector<scenario::Group> groups;  // members are indices into Capture::ranks
  std::vector<absl::flat_hash_map<uint32_t, CollectivePlan>> by_rank;  // by activity
};

// Complete instances with one collective per kernel that follow each other on all their members; everything
// else is left out, to be replayed as a plain kernel. `shift` moves each rank's stamps onto the job's clock.
CollectivePlans PlanCollectives(const store::Capture& capture, const align::Matches& matches,
                                const std::vector<Nanos>& shift, uint64_t buffered_bytes);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_SCENARIO_COLLECTIVES_H_
