#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "aggregator/analysis/delay_cost.h"

namespace lockstep::analysis {
namespace {

// A rank reached by the delay belongs to the first hop that holds this part of what it waited.
constexpr double kHopShare = 0.1;
// Who waited less than this part of a step was not held up.
constexpr double kVictimShare = 1e-3;

}  // namespace

DelayPath FollowDelay(const DelayCost& cost, const Gains& gains, uint32_t causer) {
  DelayPath path;
  if (cost.waits.empty()) return path;
  const auto steps = static_cast<double>(gains.steps());
  // Of each wait, what goes back to the causer, and over how many meetings on average.
  std::vector<double> share(cost.waits.size(), 0), hops(cost.waits.size(), 0);
  std::vector<std::vector<double>> by_rank(cost.suffered_ns.size());  // ns by hop
  std::vector<absl::flat_hash_map<uint32_t, double>> by_owner;  // ns, by hop
  for (uint32_t i = 0; i < cost.waits.size(); ++i) {
    const ExcessWait& w = cost.waits[i];
    if (w.own < 0) continue;
    const double direct = w.causer == causer ? w.own : 0;
    double passed = 0, distance = 0;
    if (w.inherited != store::kNone) {
      const Inherited& from = cost.inherited[w.inherited];
      for (uint32_t j = from.first; j < from.last; ++j) {
        const uint32_t before = cost.waits_of[from.rank_index][j];
        if (!from.Has(cost.waits[before])) continue;
        const double part = share[before] * cost.waits[before].ns / from.ns;
        passed += part;
        distance += part * hops[before];
      }
      passed *= 1 - w.own;
      distance *= 1 - w.own;
    }
    share[i] = direct + passed;
    if (share[i] <= 0) continue;
    hops[i] = 1 + distance / share[i];
    const double ns = share[i] * w.ns / steps;
    path.waited_ns += ns;
    path.direct += direct * w.ns / steps;
    const auto hop = static_cast<uint32_t>(std::lround(hops[i]));
    if (by_rank[w.victim].size() < hop) by_rank[w.victim].resize(hop, 0);
    by_rank[w.victim][hop - 1] += ns;
    if (by_owner.size() < hop) by_owner.resize(hop);
    by_owner[hop - 1][w.owner] += ns;
  }
  if (path.waited_ns <= 0) return {};
  path.direct /= path.waited_ns;
  for (uint32_t r = 0; r < by_rank.size(); ++r) {
    double all = 0;
    for (double ns : by_rank[r]) all += ns;
    if (r == causer || all < kVictimShare * gains.step_ns()) continue;
    ++path.victims;
    uint32_t hop = 0;
    while (by_rank[r][hop] < kHopShare * all) ++hop;
    if (path.hops.size() <= hop) path.hops.resize(hop + 1);
    path.hops[hop].rank_indices.push_back(r);
    path.hops[hop].ns += by_rank[r][hop];
  }
  for (uint32_t hop = 0; hop < path.hops.size(); ++hop) {
    double most = 0;
    for (const auto& [owner, ns] : by_owner[hop]) {
      if (ns < most || (ns == most && owner > path.hops[hop].owner)) continue;
      most = ns;
      path.hops[hop].owner = owner;
    }
  }
  std::erase_if(path.hops, [](const DelayHop& h) { return h.rank_indices.empty(); });
  return path;
}

}  // namespace lockstep::analysis
