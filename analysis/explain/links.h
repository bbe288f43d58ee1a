// Slow links: groups and pairs whose transfers take longer than others of the same kind, and their common
// part. This may be a rank, the network card of a host, one path, or nothing constant.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_LINKS_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_LINKS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/compare/classes.h"
#include "analysis/compare/excess.h"
#include "analysis/compare/pieces.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// The transfers of a group or pair, compared with those of others that run the same operations.
struct TransferComparison {
  uint32_t owner = capture::kNone;  // into Classes::owners
  bool between_hosts = false;
  double ratio = 1;               // median over the steps
  std::vector<double> excess_ns;  // by step
  std::vector<uint8_t> slow;      // by step
  double slow_steps = 0;          // share of slow steps
};

enum class LinkKind : uint8_t {
  kRank,        // all transfers that the rank shares with others, or all of them that leave its host
  kHost,        // all transfers of several of its ranks that leave the host
  kGroup,       // one group or pair; its members' other transfers are fine
  kCongestion,  // changing groups and pairs, with no common member
};

struct SlowLink {
  LinkKind kind = LinkKind::kRank;
  std::vector<uint32_t> rank_indices;  // several for kRank: no figure distinguishes them
  std::vector<uint32_t> hosts;         // for kHost, likewise
  bool identified = true;
  bool is_certain = true;  // false: one of its members may be the culprit, but no other transfer shows it
  bool has_no_peers =
      false;  // no other transfers are comparable; slow means slower than in its own fast steps
  bool leaves_host = false;      // only transfers that leave the host are slow
  std::vector<uint32_t> owners;  // the slow groups and pairs that it explains
  double ratio = 1;              // of all of them together, in the slow steps
  double slow_steps = 1;         // share of the steps in which they are slow
  uint32_t inside_normal = 0;    // comparable groups and pairs of the same ranks that are not slow
  Pieces pieces;                 // the time beyond typical
};

struct LinkFindings {
  std::vector<TransferComparison> compared;  // only those with peers
  std::vector<SlowLink> slow;                // the fewest culprits that explain the slow transfers
};

// True if its communicator was inferred and may have other members. This is so if another grouping fits
// nearly as well. It is also so if the hosts' clocks are unknown, because operations across hosts then look
// like those inside.
bool IsUncertain(const GraphInput& input, const TransferOwner& owner);

// True if any of them is on a host whose clock was set during the capture.
bool OnSetClock(const GraphInput& input, std::span<const uint32_t> rank_indices);

LinkFindings FindSlowLinks(const GraphInput& input, const Graph& graph, const Classes& classes,
                           const Excess& excess);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_LINKS_H_
