// Slow links: groups and pairs whose transfers take longer than those of others that do the same, and what
// they have in common: a rank, the network card of a host, one path, or nothing that stays.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_LINKS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_LINKS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/compare/classes.h"
#include "analysis/compare/excess.h"
#include "analysis/compare/pieces.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// How the transfers of a group or pair compare with those of others that run the same operations.
struct TransferComparison {
  uint32_t owner = store::kNone;  // into Classes::owners
  bool between_hosts = false;
  double ratio = 1;               // median over the steps
  std::vector<double> excess_ns;  // by step
  std::vector<uint8_t> slow;      // by step
  double slow_steps = 0;          // part of them
};

enum class LinkKind : uint8_t {
  kRank,        // all that it shares with others, or all that leaves its host
  kHost,        // all that leaves it, of several of its ranks
  kGroup,       // one group or pair; its members' other transfers are fine
  kCongestion,  // now these, now those: no member in common
};

struct SlowLink {
  LinkKind kind = LinkKind::kRank;
  std::vector<uint32_t> rank_indices;  // of kRank more than one: nothing tells them apart
  std::vector<uint32_t> hosts;         // of kHost: likewise
  bool told_apart = true;
  bool surely = true;  // else one of its members may be to blame, which nothing else shows
  bool alone =
      false;  // nothing can be compared with it: slow is what takes longer than in its own fast steps
  bool leaves_host = false;      // only what leaves the host is slow, what stays inside is not
  std::vector<uint32_t> owners;  // the slow groups and pairs it explains
  double ratio = 1;              // of all of them together, in the slow steps
  double slow_steps = 1;         // part of the steps in which they are slow
  uint32_t inside_normal = 0;    // comparable groups and pairs of the same ranks that are not slow
  Pieces pieces;                 // what is beyond typical
};

struct LinkFindings {
  std::vector<TransferComparison> compared;  // with peers only
  std::vector<SlowLink> slow;                // fewest culprits that explain what is slow
};

// Is any of them on a host whose clock was set while the capture ran?
bool OnSetClock(const GraphInput& input, std::span<const uint32_t> rank_indices);

LinkFindings FindSlowLinks(const GraphInput& input, const Graph& graph, const Classes& classes,
                           const Excess& excess);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_LINKS_H_
