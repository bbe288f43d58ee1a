// Pauses of a host: gaps before its calls that stand far out of what the same gap usually takes on all ranks.
// Read-only once built, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_HOST_PAUSES_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_HOST_PAUSES_H_

#include <cstdint>
#include <vector>

#include "analysis/compare/classes.h"
#include "analysis/compare/typical.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

class HostPauses {
 public:
  // All of them must outlive it.
  HostPauses(const Graph& graph, const Classes& classes, const TypicalValues& typical);

  // By how much the gap before `unit`, one of `cell`, is longer than its rank's usual one, in nanoseconds; 0
  // where it is no pause.
  double At(uint32_t cell, uint32_t unit) const;

 private:
  const Graph& graph_;
  const Classes& classes_;
  const TypicalValues& typical_;
  std::vector<double> sigma_;  // by class: how much its gaps vary, robust
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_HOST_PAUSES_H_
