// Finds the network links on which an operation waits.
#ifndef LOCKSTEP_ANALYSIS_HANG_STUCK_LINKS_H_
#define LOCKSTEP_ANALYSIS_HANG_STUCK_LINKS_H_

#include <vector>

#include "analysis/hang/explain_hang.h"
#include "analysis/hang/hang_state.h"
#include "analysis/hang/waits.h"

namespace lockstep::analysis {

// Returns the links over which the wait's operation has moved nothing for at least half of the wait, those
// with the longest standstill first. `group` is the wait's.
//
// On a ring, one link that does not carry data stops all others: ranks behind it wait for data, and ranks
// before it for buffers. So sends that the network does not complete come first. Only without such a send
// those count that wait for a buffer, while the receiver waits for data or is not known.
std::vector<HangLink> FindStuckLinks(const HangJob& job, const Group& group, const Wait& wait);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_HANG_STUCK_LINKS_H_
