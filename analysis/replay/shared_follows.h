// Applies a dependency that was seen on one rank's device to all ranks.
//
// If no record says what a device operation waits for, the operation that ended just before its start shows
// it. This shows only the last dependency. For example, a pass that needs its input and its parameters begins
// with the later of both. The later one differs between ranks and steps. Operations at the same place of the
// same program wait for the same operations, so a dependency that some of them show holds for all. Used by
// BuildGraph only.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_SHARED_FOLLOWS_H_
#define LOCKSTEP_ANALYSIS_REPLAY_SHARED_FOLLOWS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// `unit` was seen to start as `from` ended.
struct Follow {
  uint32_t from, unit;
};

// Adds start predecessors, ordered by unit, to a graph whose units are complete.
void InsertFollows(std::span<const Follow> added, Graph& graph);

// Adds start predecessors to `graph`, whose units, stamps and start predecessors must be set.
void ShareFollows(const capture::Capture& capture, const std::vector<Follow>& follows, Graph& graph);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_SHARED_FOLLOWS_H_
