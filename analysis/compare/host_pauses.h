// Pauses of a host: gaps before its calls that are far longer than the same gap usually is on all ranks.
// Read-only after construction, so any thread may use it.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_HOST_PAUSES_H_
#define LOCKSTEP_ANALYSIS_COMPARE_HOST_PAUSES_H_

#include <cstdint>
#include <vector>

#include "analysis/compare/classes.h"
#include "analysis/compare/typical.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

class HostPauses {
 public:
  // All references must outlive it.
  HostPauses(const Graph& graph, const Classes& classes, const TypicalValues& typical);

  // The time by which the gap before `unit`, which is in `cell`, exceeds its rank's usual gap, in
  // nanoseconds; 0 if it is not a pause.
  double At(uint32_t cell, uint32_t unit) const;

 private:
  const Graph& graph_;
  const Classes& classes_;
  const TypicalValues& typical_;
  std::vector<double> sigma_;  // by class: robust sigma of its gaps
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_COMPARE_HOST_PAUSES_H_
