#include "aggregator/analysis/links.h"

#include <algorithm>
#include <cmath>

#include "aggregator/analysis/stats.h"

namespace lockstep::analysis {
namespace {

using store::kNone;

// A group is slow when its transfers take this much longer than its peers', and stand out of the others' spread.
constexpr double kSlowRatio = 1.08;
constexpr double kSlowSigmas = 4.0;

std::vector<GroupTransfers> CompareGroups(const GraphInput& input, const Classes& classes, const TypicalValues& typical) {
  std::vector<GroupTransfers> by_group(input.capture.groups.size());
  for (size_t c = 0; c < classes.cells.size(); ++c) {
    const Cell& cell = classes.cells[c];
    const CellStats& stats = typical.stats()[c];
    if (cell.kind != UnitKind::kTransfer || !stats.has_peers || cell.owner >= by_group.size()) continue;
    GroupTransfers& g = by_group[cell.owner];
    g.group = cell.owner;
    g.own_ns += std::max(0.0, stats.own_work) * cell.count;
    g.peers_ns += std::max(0.0, stats.peer_work) * cell.count;
  }
  std::erase_if(by_group, [](const GroupTransfers& g) { return g.group == kNone || g.peers_ns <= 0; });
  return by_group;
}

// Half of the groups at least are taken to be healthy.
double HealthySigma(const std::vector<GroupTransfers>& groups) {
  std::vector<double> ratios;
  for (const GroupTransfers& g : groups) ratios.push_back(g.ratio());
  std::sort(ratios.begin(), ratios.end());
  ratios.resize((ratios.size() + 1) / 2);
  return RobustSigma(ratios);
}

}  // namespace

LinkFindings FindSlowLinks(const GraphInput& input, const Classes& classes, const TypicalValues& typical) {
  LinkFindings out;
  out.groups = CompareGroups(input, classes, typical);
  if (out.groups.empty()) return out;
  out.healthy_sigma = HealthySigma(out.groups);
  std::vector<uint8_t> evaluated(input.capture.groups.size(), 0), slow(input.capture.groups.size(), 0);
  std::vector<const GroupTransfers*> row(input.capture.groups.size(), nullptr);
  for (const GroupTransfers& g : out.groups) {
    evaluated[g.group] = 1;
    slow[g.group] = g.ratio() > std::max(kSlowRatio, 1 + kSlowSigmas * out.healthy_sigma) ? 1 : 0;
    row[g.group] = &g;
  }
  std::vector<std::vector<uint32_t>> groups_of(input.capture.ranks.size());
  for (uint32_t r = 0; r < input.capture.ranks.size(); ++r) {
    for (const store::Collective& c : input.capture.ranks[r].collectives) {
      if (c.group >= evaluated.size() || !evaluated[c.group]) continue;
      auto& list = groups_of[r];
      if (std::find(list.begin(), list.end(), c.group) == list.end()) list.push_back(c.group);
    }
  }
  // A bad link shows in every group of its rank; the fewest such ranks that explain all slow groups are named.
  std::vector<uint8_t> covered(slow.size(), 0);
  while (true) {
    size_t most = 0;
    std::vector<uint32_t> best;
    for (uint32_t r = 0; r < groups_of.size(); ++r) {
      if (groups_of[r].empty()) continue;
      const bool all = std::all_of(groups_of[r].begin(), groups_of[r].end(), [&](uint32_t g) { return slow[g] != 0; });
      if (!all) continue;
      const auto fresh = static_cast<size_t>(
          std::count_if(groups_of[r].begin(), groups_of[r].end(), [&](uint32_t g) { return !covered[g]; }));
      if (fresh > most) {
        most = fresh;
        best.clear();
      }
      if (fresh == most && fresh > 0) best.push_back(r);
    }
    if (best.empty()) return out;
    // Of equals only those that share all their groups cannot be told apart.
    SlowLink link;
    for (uint32_t r : best) {
      if (groups_of[r] == groups_of[best.front()]) link.rank_indices.push_back(r);
    }
    link.groups = groups_of[best.front()];
    link.evaluated = static_cast<uint32_t>(link.groups.size());
    double own = 0, peers = 0;
    for (uint32_t g : link.groups) {
      covered[g] = 1;
      own += row[g]->own_ns;
      peers += row[g]->peers_ns;
    }
    link.ratio = peers > 0 ? own / peers : 1;
    out.slow.push_back(std::move(link));
  }
}

}  // namespace lockstep::analysis
