// Slow links: groups whose transfers take longer than those of groups that do the same, and the one member they share.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_LINKS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_LINKS_H_

#include <cstdint>
#include <vector>

#include "aggregator/analysis/graph.h"
#include "aggregator/analysis/typical.h"

namespace lockstep::analysis {

// How a group's transfers compare with those of groups that run the same operations.
struct GroupTransfers {
  uint32_t group = store::kNone;
  double own_ns = 0;    // medians of its classes, summed over its units
  double peers_ns = 0;  // what its peers would take for the same
  double ratio() const { return peers_ns > 0 ? own_ns / peers_ns : 1; }
};

struct SlowLink {
  std::vector<uint32_t> rank_indices;  // more than one: nothing tells them apart
  std::vector<uint32_t> groups;        // slow groups it explains
  uint32_t evaluated = 0;              // its groups that have peers
  double ratio = 1;                    // of all those groups together
};

struct LinkFindings {
  std::vector<GroupTransfers> groups;  // with peers only
  std::vector<SlowLink> slow;          // fewest members that explain every slow group
  double healthy_sigma = 0;            // robust spread of the ratios
};

LinkFindings FindSlowLinks(const GraphInput& input, const Classes& classes, const TypicalValues& typical);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_LINKS_H_
