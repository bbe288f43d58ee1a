// Slow links: groups and pairs whose transfers take longer than those of others that do the same, and the one member they share.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_LINKS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_LINKS_H_

#include <cstdint>
#include <vector>

#include "aggregator/analysis/graph.h"
#include "aggregator/analysis/typical.h"

namespace lockstep::analysis {

// How the transfers of a group or pair compare with those of others that run the same operations.
struct TransferComparison {
  uint32_t owner = store::kNone;  // into Classes::owners
  double own_ns = 0;              // medians of its classes, summed over its units
  double peers_ns = 0;            // what its peers would take for the same
  double ratio() const { return peers_ns > 0 ? own_ns / peers_ns : 1; }
};

struct SlowLink {
  std::vector<uint32_t> rank_indices;  // more than one: nothing tells them apart
  std::vector<uint32_t> owners;        // the slow groups and pairs it explains: all of its own that have peers
  double ratio = 1;                    // of all of them together
};

struct LinkFindings {
  std::vector<TransferComparison> compared;  // with peers only
  std::vector<SlowLink> slow;                // fewest members that explain what is slow
};

LinkFindings FindSlowLinks(const GraphInput& input, const Classes& classes, const TypicalValues& typical);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_LINKS_H_
