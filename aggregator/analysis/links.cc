#include "aggregator/analysis/links.h"

#include <algorithm>
#include <cmath>

#include "aggregator/analysis/stats.h"

namespace lockstep::analysis {
namespace {

using store::kNone;

// Slow is what takes this much longer than its peers and stands out of the others' spread.
constexpr double kSlowRatio = 1.08;
constexpr double kSlowSigmas = 4.0;

std::vector<TransferComparison> Compare(const Classes& classes, const TypicalValues& typical) {
  std::vector<TransferComparison> rows(classes.owners.size());
  for (size_t c = 0; c < classes.cells.size(); ++c) {
    const Cell& cell = classes.cells[c];
    const CellStats& stats = typical.stats()[c];
    if (cell.kind != UnitKind::kTransfer || !stats.has_peers) continue;
    TransferComparison& row = rows[cell.owner];
    row.owner = cell.owner;
    row.own_ns += std::max(0.0, stats.own_work) * cell.count;
    row.peers_ns += std::max(0.0, stats.peer_work) * cell.count;
  }
  std::erase_if(rows, [](const TransferComparison& r) { return r.owner == kNone || r.peers_ns <= 0; });
  return rows;
}

// Half of them at least are taken to be healthy.
double HealthySigma(const std::vector<TransferComparison>& rows) {
  std::vector<double> ratios;
  for (const TransferComparison& r : rows) ratios.push_back(r.ratio());
  std::sort(ratios.begin(), ratios.end());
  ratios.resize((ratios.size() + 1) / 2);
  return RobustSigma(ratios);
}

// A bad link shows in every group and pair of its rank; the fewest such ranks that explain all that is slow are named.
class Cover {
 public:
  Cover(size_t ranks, const Classes& classes, const std::vector<TransferComparison>& rows) : rows_(rows), owners_of_(ranks), slow_(classes.owners.size(), 0) {
    const double limit = std::max(kSlowRatio, 1 + kSlowSigmas * HealthySigma(rows));
    for (const TransferComparison& row : rows) {
      slow_[row.owner] = row.ratio() > limit ? 1 : 0;
      for (uint32_t r : classes.owners[row.owner].rank_indices) owners_of_[r].push_back(row.owner);
    }
  }

  std::vector<SlowLink> Run() {
    std::vector<SlowLink> links;
    std::vector<uint8_t> covered(slow_.size(), 0);
    while (true) {
      const std::vector<uint32_t> best = BestRanks(covered);
      if (best.empty()) return links;
      SlowLink link;
      link.owners = owners_of_[best.front()];
      // Of equals only those that share everything cannot be told apart.
      for (uint32_t r : best) {
        if (owners_of_[r] == link.owners) link.rank_indices.push_back(r);
      }
      double own = 0, peers = 0;
      for (const TransferComparison& row : rows_) {
        if (std::find(link.owners.begin(), link.owners.end(), row.owner) == link.owners.end()) continue;
        covered[row.owner] = 1;
        own += row.own_ns;
        peers += row.peers_ns;
      }
      link.ratio = own / peers;
      links.push_back(std::move(link));
    }
  }

 private:
  // The ranks, all of whose groups and pairs are slow, that explain most of what is not yet covered.
  std::vector<uint32_t> BestRanks(const std::vector<uint8_t>& covered) const {
    std::ptrdiff_t most = 0;
    std::vector<uint32_t> best;
    for (uint32_t r = 0; r < owners_of_.size(); ++r) {
      const auto& own = owners_of_[r];
      if (!std::all_of(own.begin(), own.end(), [&](uint32_t o) { return slow_[o] != 0; })) continue;
      const auto fresh = std::count_if(own.begin(), own.end(), [&](uint32_t o) { return covered[o] == 0; });
      if (fresh > most) {
        most = fresh;
        best.clear();
      }
      if (fresh == most && fresh > 0) best.push_back(r);
    }
    return best;
  }

  const std::vector<TransferComparison>& rows_;
  std::vector<std::vector<uint32_t>> owners_of_;  // by rank index
  std::vector<uint8_t> slow_;                     // by owner
};

}  // namespace

LinkFindings FindSlowLinks(const GraphInput& input, const Classes& classes, const TypicalValues& typical) {
  LinkFindings out;
  out.compared = Compare(classes, typical);
  if (!out.compared.empty()) out.slow = Cover(input.capture.ranks.size(), classes, out.compared).Run();
  return out;
}

}  // namespace lockstep::analysis
