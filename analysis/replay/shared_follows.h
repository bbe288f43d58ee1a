// What one rank's device was seen to wait for, the others wait for as well.
//
// Where no record says what a device operation waits for, the one that ended just before it started shows it,
// but only the last of those it waits for: a pass that receives its input and its parameters begins when the
// later of the two is there, and which that is differs from rank to rank and step to step. Operations at the
// same place of the same program wait for the same, so what one was seen to follow, all follow. Used by
// BuildGraph only.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_SHARED_FOLLOWS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_SHARED_FOLLOWS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// `unit` was seen to start as `from` ended.
struct Follow {
  uint32_t from, unit;
};

// Adds start predecessors, which are in order of unit, to a graph whose units are complete.
void InsertFollows(std::span<const Follow> added, Graph& graph);

// Adds the start predecessors to `graph`, of which units, stamps and start predecessors are known.
void ShareFollows(const store::Capture& capture, const std::vector<Follow>& follows, Graph& graph);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_SHARED_FOLLOWS_H_
