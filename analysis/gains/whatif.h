// Predictions: the step if a rank, a host, a pipeline stage, the transfers of a link or a group, or a class
// of operations were like its peers, or faster.
//
// Replays the capture with those units changed. Collectives slow kernels for as long as they now run beside
// them, and everything else is as observed. Definitions: docs/analysis/whatif.md. Pure; any thread.
#ifndef LOCKSTEP_ANALYSIS_GAINS_WHATIF_H_
#define LOCKSTEP_ANALYSIS_GAINS_WHATIF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/gains/fix_targets.h"
#include "analysis/prepare/stats.h"
#include "analysis/replay/prepared.h"

namespace lockstep::analysis {

struct WhatIfRequest {
  std::vector<FixTarget> targets;  // all changed together
  // Own durations are multiplied by this, instead of made typical. It must be above 0.
  std::optional<double> scale;
  // Part of the way from observed to typical; 1: all of it.
  double strength = 1;
};

// The meaning of one target in this capture.
struct WhatIfPart {
  FixTarget target;
  std::string what;           // for the user: "rank 5 (GPU 5 of node0)"
  std::vector<RankId> ranks;  // ranks that own these units
  uint64_t units = 0;         // number of the target's units in the used steps
};

struct WhatIfResult {
  std::vector<WhatIfPart> parts;
  size_t steps = 0;
  double step_ns = 0, new_step_ns = 0;      // mean over the steps
  double gain_ns = 0;                       // per step
  std::optional<Interval95> gain_interval;  // with at least kLeastSteps steps
  std::vector<double> gain_per_step;
  uint64_t units = 0;              // in the used steps
  uint64_t units_changed = 0;      // units with another duration or gap than observed
  std::vector<std::string> notes;  // limits of this answer, for the user
};

// kInvalidArgument: the request names an unknown target; the message lists the known ones.
// kFailedPrecondition: the capture has no whole step to replay.
absl::StatusOr<WhatIfResult> WhatIf(const Prepared& prepared, const WhatIfRequest& request);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_GAINS_WHATIF_H_
