// IsInStep(): whether a moment of a rank's host is in one of its steps.
#ifndef LOCKSTEP_VIEWS_HOST_IN_STEP_H_
#define LOCKSTEP_VIEWS_HOST_IN_STEP_H_

#include <algorithm>
#include <iterator>
#include <vector>

#include "analysis/prepare/steps.h"
#include "base/time.h"

namespace lockstep::views {

// `steps` are sorted by time, as in analysis::RankSteps.
inline bool IsInStep(const std::vector<analysis::RankStep>& steps, HostTime at) {
  const auto after =
      std::upper_bound(steps.begin(), steps.end(), at,
                       [](HostTime t, const analysis::RankStep& s) { return t < s.host.start; });
  return after != steps.begin() && at < std::prev(after)->host.end;
}

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_IN_STEP_H_
