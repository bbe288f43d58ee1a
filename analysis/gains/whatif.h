// What if a rank, a host, a pipeline stage, a link's or a group's transfers or a class of operations were
// like its peers, or faster?
//
// The capture replayed with those units changed; collectives slow the kernels beside them for as long as they
// now are beside them, and everything else is as observed. Definitions: docs/analysis.md, "What if". Pure;
// any thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_WHATIF_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_WHATIF_H_

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
  // Own durations times this, instead of made typical. More than 0.
  std::optional<double> scale;
  // Of the way from observed to typical: 1 all of it.
  double strength = 1;
};

// What one target stands for in this capture.
struct WhatIfPart {
  FixTarget target;
  std::string what;           // in words: "rank 5 (GPU 5 of node0)"
  std::vector<RankId> ranks;  // whose units these are
  uint64_t units = 0;         // that the target names, in the used steps
};

struct WhatIfResult {
  std::vector<WhatIfPart> parts;
  size_t steps = 0;
  double step_ns = 0, new_step_ns = 0;      // mean over the steps
  double gain_ns = 0;                       // per step
  std::optional<Interval95> gain_interval;  // from kLeastSteps steps on
  std::vector<double> gain_per_step;
  uint64_t units = 0;              // in the used steps
  uint64_t units_changed = 0;      // whose duration or gap is another now
  std::vector<std::string> notes;  // what the reader must know of this answer, in words
};

// kInvalidArgument: the request names something that is not there; the message says what there is.
// kFailedPrecondition: the capture holds no whole step to replay.
absl::StatusOr<WhatIfResult> WhatIf(const Prepared& prepared, const WhatIfRequest& request);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_WHATIF_H_
