#include "analysis/compare/cell_peers.h"

#include <algorithm>
#include <utility>

#include "base/median.h"

namespace lockstep::analysis {

CellPeers::CellPeers(const Classes& classes, const TypicalValues& typical)
    : classes_(classes), typical_(typical) {
  first_cell_.assign(classes_.count + 1, 0);
  for (const Cell& c : classes_.cells) ++first_cell_[c.class_index + 1];
  for (uint32_t k = 0; k < classes_.count; ++k) first_cell_[k + 1] += first_cell_[k];
  AddUpStages();
  CountPeers();
}

void CellPeers::AddUpStages() {
  family_of_.assign(classes_.count, capture::kNone);
  uint32_t family = capture::kNone;
  for (const StageFamily& f : classes_.stage_families) {
    if (first_cell_[f.first] == first_cell_[f.first + f.length] ||
        classes_.cells[first_cell_[f.first]].kind != UnitKind::kKernel)
      continue;
    if (families_.empty() || f.family != family) families_.emplace_back();
    family = f.family;
    for (uint32_t k = f.first; k < f.first + f.length; ++k) {
      family_of_[k] = static_cast<uint32_t>(families_.size() - 1);
      for (uint32_t c = first_cell_[k]; c < first_cell_[k + 1]; ++c) {
        families_.back().push_back({classes_.cells[c].owner, typical_.stats()[c].own_work / f.length});
      }
    }
  }
  // Keeps one total for each rank: the mean over the occurrences.
  for (std::vector<StageTotal>& totals : families_) {
    std::stable_sort(totals.begin(), totals.end(),
                     [](const StageTotal& a, const StageTotal& b) { return a.rank_index < b.rank_index; });
    size_t kept = 0;
    for (size_t i = 0; i < totals.size(); ++i) {
      if (kept > 0 && totals[kept - 1].rank_index == totals[i].rank_index) {
        totals[kept - 1].work += totals[i].work;
      } else {
        totals[kept++] = totals[i];
      }
    }
    totals.resize(kept);
  }
}

void CellPeers::CountPeers() {
  std::vector<std::vector<std::pair<uint32_t, double>>>
      sizes;  // by rank index: number of ranks that do the same, and the time of it
  for (uint32_t c = 0; c < classes_.cells.size(); ++c) {
    const Cell& cell = classes_.cells[c];
    if (cell.kind != UnitKind::kKernel) continue;
    const uint32_t size = std::max(first_cell_[cell.class_index + 1] - first_cell_[cell.class_index],
                                   static_cast<uint32_t>(StageTotalsOf(cell.class_index).size()));
    if (sizes.size() <= cell.owner) sizes.resize(cell.owner + 1);
    sizes[cell.owner].push_back({size, typical_.stats()[c].own_work * cell.count});
  }
  peers_.assign(sizes.size(), 1);
  for (size_t r = 0; r < sizes.size(); ++r) {
    std::sort(sizes[r].begin(), sizes[r].end());
    double all = 0, seen = 0;
    for (const auto& [size, time] : sizes[r]) all += time;
    for (const auto& [size, time] : sizes[r]) {
      seen += time;
      if (2 * seen < all) continue;
      peers_[r] = size;
      break;
    }
  }
}

std::span<const StageTotal> CellPeers::StageTotalsOf(uint32_t class_index) const {
  if (family_of_[class_index] == capture::kNone) return {};
  return families_[family_of_[class_index]];
}

std::optional<double> CellPeers::WorkOfOtherStages(uint32_t c, std::span<const uint8_t> left_out) const {
  const Cell& cell = classes_.cells[c];
  std::vector<double> others;
  double own = 0;
  for (const StageTotal& t : StageTotalsOf(cell.class_index)) {
    if (t.rank_index == cell.owner) {
      own = t.work;
    } else if (t.rank_index >= left_out.size() || left_out[t.rank_index] == 0) {
      others.push_back(t.work);
    }
  }
  if (others.empty() || own <= 0) return std::nullopt;
  return typical_.stats()[c].own_work * MedianInPlace(std::span(others)) / own;
}

}  // namespace lockstep::analysis
