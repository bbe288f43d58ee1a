// The fewest culprits that explain slow transfers: a rank or host whose transfers are slow together, one
// group, or congestion.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_LINK_CULPRITS_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_LINK_CULPRITS_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "analysis/explain/links.h"

namespace lockstep::analysis {

// A slow link with the slow steps that it explains. Of `link`, only the kind, the ranks and hosts, the owners
// and how certain they are are set. The figures are the caller's.
struct LinkCulprit {
  SlowLink link;
  std::map<uint32_t, std::vector<uint32_t>> steps_of_row;  // by row of the comparison; never empty lists
};

// Covers the slow steps of `compared`, each at most once. Culprits that explain most come first. `cells` are
// the cells of transfers, by owner. Steps that no culprit explains are left out: a single slow step is an
// incident. A pure function; the arguments need to live only during the call.
std::vector<LinkCulprit> FindLinkCulprits(const GraphInput& input, const Graph& graph, const Classes& classes,
                                          const Excess& excess, std::span<const std::vector<uint32_t>> cells,
                                          std::span<const TransferComparison> compared);

// True if each member of the group with these cells needs only as long as its own partners take.
bool MembersDiffer(const GraphInput& input, const Graph& graph, const Classes& classes,
                   std::span<const uint32_t> cells);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_LINK_CULPRITS_H_
