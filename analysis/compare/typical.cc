#include "analysis/compare/typical.h"

#include <algorithm>
#include <cmath>

#include "analysis/prepare/stats.h"
#include "base/median.h"

namespace lockstep::analysis {
namespace {

// A value that still stands out of its class after scaling is a pause or an interruption, not noise.
constexpr double kOutlierSigmas = 6.0;
constexpr double kOutlierShare = 0.25;
constexpr double kWorkFloorNs = 5'000;
constexpr double kLagFloorNs = 100'000;
// Stages that differ by less than this share are alike.
constexpr double kStageNoise = 0.01;
constexpr double kStageLagNoise = 0.05;
// Two ranks differ if their values are further apart than this share, and than these times.
constexpr double kTwoApart = 0.05;
constexpr double kTwoWorkFloorNs = 1'000;

// The median of sorted values. If only two ranks do this, and one takes longer, their mean would contain half
// of its delay, so the smaller value counts.
double TypicalOf(const std::vector<double>& sorted, double floor_ns) {
  const bool apart =
      sorted.size() == 2 && sorted[1] - sorted[0] > std::max(floor_ns, kTwoApart * std::fabs(sorted[0]));
  return apart ? sorted[0] : SortedMedian(sorted);
}

}  // namespace

TypicalValues::TypicalValues(const Graph& graph, const Classes& classes, bool steady)
    : graph_(graph),
      classes_(classes),
      stats_(classes.cells.size()),
      spread_(classes.count),
      first_cell_(classes.count + 1) {
  size_t next = 0;
  for (uint32_t k = 0; k < classes.count; ++k) {
    first_cell_[k] = static_cast<uint32_t>(next);
    while (next < classes.cells.size() && classes.cells[next].class_index == k) ++next;
    if (next > first_cell_[k]) MeasureClass(first_cell_[k], next);
  }
  first_cell_[classes.count] = static_cast<uint32_t>(next);
  CompareStages();
  uint32_t ranks = 0;
  for (const Unit& u : graph.units) ranks = std::max(ranks, u.rank_index + 1);
  rank_cells_.resize(ranks);
  heads_.resize(ranks);
  if (!steady) FindHeads(ranks);
  for (uint32_t c = 0; c < classes.cells.size(); ++c) {
    const Cell& cell = classes.cells[c];
    auto& lists = cell.kind == UnitKind::kTransfer ? owner_cells_ : rank_cells_;
    if (cell.owner >= lists.size()) lists.resize(cell.owner + 1);
    lists[cell.owner].push_back(c);
  }
}

// Mean time of one occurrence of the signature in this stage: the median over its ranks.
double TypicalValues::StageMean(const StageFamily& family, double CellStats::*value) const {
  std::vector<std::pair<uint32_t, double>> sums;  // by rank
  for (uint32_t k = family.first; k < family.first + family.length; ++k) {
    for (uint32_t c = first_cell_[k]; c < first_cell_[k + 1]; ++c)
      sums.emplace_back(classes_.cells[c].owner, stats_[c].*value);
  }
  std::sort(sums.begin(), sums.end());
  std::vector<double> by_rank;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (i == 0 || sums[i].first != sums[i - 1].first) by_rank.push_back(0);
    by_rank.back() += sums[i].second / family.length;
  }
  std::sort(by_rank.begin(), by_rank.end());
  return TypicalOf(by_rank, value == &CellStats::own_lag ? kLagFloorNs : kTwoWorkFloorNs);
}

// Inside a stage, its ranks are typical of each other. Stages are compared by the totals of the same kernels,
// and by their hosts' delays before the same calls. A fix makes no rank slower, so only a slower stage gets a
// reference outside of itself.
void TypicalValues::CompareStages() {
  const std::vector<StageFamily>& families = classes_.stage_families;
  for (size_t first = 0; first < families.size();) {
    size_t last = first + 1;
    while (last < families.size() && families[last].family == families[first].family) ++last;
    if (last - first > 1) CompareFamily(std::span(families).subspan(first, last - first));
    first = last;
  }
}

void TypicalValues::CompareFamily(std::span<const StageFamily> family) {
  const auto first_cell = [&](const StageFamily& f) { return first_cell_[f.first]; };
  const auto end_cell = [&](const StageFamily& f) { return first_cell_[f.first + f.length]; };
  if (first_cell(family[0]) == end_cell(family[0])) return;
  const bool host = HasLag(classes_.cells[first_cell(family[0])].kind);
  std::vector<double> means;
  for (const StageFamily& f : family)
    means.push_back(StageMean(f, host ? &CellStats::own_lag : &CellStats::own_work));
  std::vector<double> sorted = means;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < family.size(); ++i) {
    const double own = means[i];
    if (own <= 0) continue;
    const double others = SortedMedianWithout(sorted, own), all = SortedMedian(sorted);
    for (uint32_t c = first_cell(family[i]); c < end_cell(family[i]); ++c) {
      CellStats& s = stats_[c];
      s.has_peers = true;
      if (host) {
        if (own - others <= kStageLagNoise * own) continue;
        s.peer_lag -= own - others;
        s.all_lag -= own - others;
        continue;
      }
      if (1 - others / own > kStageNoise) s.peer_work *= others / own;
      if (std::fabs(1 - all / own) > kStageNoise) s.all_work *= all / own;
    }
  }
}

// With few steps, a rank's offset at the begin of the window is real lateness. There are no other steps for a
// comparison.
void TypicalValues::FindHeads(uint32_t ranks) {
  std::vector<uint32_t> earliest(ranks, capture::kNone);
  for (uint32_t u = 0; u < graph_.units.size(); ++u) {
    const Unit& unit = graph_.units[u];
    if (!unit.is_head || unit.step < 0 || !IsHostUnit(unit.kind)) continue;
    uint32_t& best = earliest[unit.rank_index];
    if (best == capture::kNone || graph_.start[u] < graph_.start[best]) best = u;
  }
  std::vector<double> starts;
  for (uint32_t u : earliest) {
    if (u != capture::kNone) starts.push_back(graph_.lag[u]);
  }
  if (starts.size() < 2) return;
  std::sort(starts.begin(), starts.end());
  for (uint32_t r = 0; r < ranks; ++r) {
    if (earliest[r] == capture::kNone) continue;
    heads_[r] = {earliest[r], SortedMedianWithout(starts, graph_.lag[earliest[r]]), SortedMedian(starts)};
  }
}

void TypicalValues::MeasureClass(size_t first_cell, size_t last_cell) {
  const bool host = HasLag(classes_.cells[first_cell].kind), works = HasWork(classes_.cells[first_cell].kind);
  std::vector<double> scratch, work_medians, lag_medians, work_residuals, lag_residuals;
  const auto median = [&](const Cell& cell, const std::vector<double>& values,
                          std::vector<double>& residuals) {
    scratch.clear();
    for (uint32_t u : classes_.UnitsOf(cell)) {
      if (!(host && graph_.units[u].is_head)) scratch.push_back(values[u]);
    }
    if (scratch.empty()) return 0.0;
    const double middle = MedianInPlace(std::span(scratch));
    for (double v : scratch) residuals.push_back(std::fabs(v - middle));
    return middle;
  };
  for (size_t c = first_cell; c < last_cell; ++c) {
    if (works) stats_[c].own_work = median(classes_.cells[c], graph_.work, work_residuals);
    work_medians.push_back(stats_[c].own_work);
    if (!host) continue;
    stats_[c].own_lag = median(classes_.cells[c], graph_.lag, lag_residuals);
    lag_medians.push_back(stats_[c].own_lag);
  }
  std::sort(work_medians.begin(), work_medians.end());
  std::sort(lag_medians.begin(), lag_medians.end());
  for (size_t c = first_cell; c < last_cell; ++c) {
    CellStats& s = stats_[c];
    if (classes_.extra_work[classes_.cells[c].class_index] != 0) {
      s.has_peers = true;
      continue;
    }
    s.has_peers = last_cell - first_cell > 1;
    s.all_work = TypicalOf(work_medians, kTwoWorkFloorNs);
    s.peer_work = s.has_peers ? SortedMedianWithout(work_medians, s.own_work) : s.own_work;
    if (!host) continue;
    s.all_lag = TypicalOf(lag_medians, kLagFloorNs);
    s.peer_lag = s.has_peers ? SortedMedianWithout(lag_medians, s.own_lag) : s.own_lag;
  }
  ClassSpread& spread = spread_[classes_.cells[first_cell].class_index];
  spread.work_sigma = 1.4826 * MedianInPlace(std::span(work_residuals));
  spread.lag_sigma = 1.4826 * MedianInPlace(std::span(lag_residuals));
}

bool TypicalValues::Selected(UnitKind kind, uint32_t aspects) {
  switch (kind) {
    case UnitKind::kKernel:
      return (aspects & kKernels) != 0;
    case UnitKind::kCopy:
      return (aspects & kCopies) != 0;
    case UnitKind::kTransfer:
      return false;
    default:
      return (aspects & kHost) != 0;
  }
}

double TypicalValues::Cut(double value, double typical, double sigma, double floor) const {
  const double allowed = std::max({kOutlierSigmas * sigma, kOutlierShare * std::fabs(typical), floor});
  return value - typical > allowed ? typical : value;
}

double TypicalValues::Toward(double observed, double typical, double strength) {
  return observed + strength * (typical - observed);
}

bool TypicalValues::OpensStep(uint32_t unit) const {
  const Unit& u = graph_.units[unit];
  return (IsHostUnit(u.kind) || !graph_.HasHost(u.rank_index)) &&
         (unit == 0 || graph_.units[unit - 1].rank_index != u.rank_index ||
          graph_.units[unit - 1].step != u.step);
}

double TypicalValues::LevelLag(uint32_t unit, double change) const {
  return graph_.lag[unit] + (OpensStep(unit) ? std::min(change, 0.0) : change);
}

// Scales the work down, or adds the difference if the typical value is larger. A large factor would turn an
// outlier into seconds.
double TypicalValues::Scaled(double work, double own, double typical) {
  if (own > 0 && typical == 0) return std::max(0.0, work - own);
  return own > 0 && typical > 0 && typical < own ? work * (typical / own) : work + (typical - own);
}

void TypicalValues::ScaleCell(size_t cell, const CellStats& s, double strength, Timing& timing) const {
  const ClassSpread& spread = spread_[classes_.cells[cell].class_index];
  const bool host = HasLag(classes_.cells[cell].kind), works = HasWork(classes_.cells[cell].kind);
  for (uint32_t u : classes_.UnitsOf(classes_.cells[cell])) {
    const double work = Scaled(graph_.work[u], s.own_work, s.peer_work);
    if (works)
      timing.work[u] =
          Toward(graph_.work[u], Cut(work, s.peer_work, spread.work_sigma, kWorkFloorNs), strength);
    if (!host || graph_.units[u].is_head) continue;
    const double lag = LevelLag(u, s.peer_lag - s.own_lag);
    timing.lag[u] = Toward(graph_.lag[u], Cut(lag, s.peer_lag, spread.lag_sigma, kLagFloorNs), strength);
  }
}

// The cell's values, with the medians of its class outside of `fixed` (sorted) as its peers.
CellStats TypicalValues::BesideOthers(size_t cell, std::span<const uint32_t> fixed,
                                      std::vector<double>& scratch) const {
  CellStats stats = stats_[cell];
  const uint32_t class_index = classes_.cells[cell].class_index;
  if (classes_.extra_work[class_index] != 0) return stats;
  const auto median = [&](double CellStats::*value) {
    scratch.clear();
    auto next = fixed.begin();
    for (uint32_t c = first_cell_[class_index]; c < first_cell_[class_index + 1]; ++c) {
      if (next != fixed.end() && *next == c) {
        ++next;
      } else {
        scratch.push_back(stats_[c].*value);
      }
    }
    return MedianInPlace(std::span(scratch));
  };
  stats.peer_work = median(&CellStats::own_work);
  if (HasLag(classes_.cells[cell].kind)) stats.peer_lag = median(&CellStats::own_lag);
  return stats;
}

void TypicalValues::MakeTypical(const Fix& fix, Timing& timing) const {
  std::vector<uint32_t> cells;
  for (uint32_t r : fix.rank_indices) {
    for (uint32_t c : CellsOfRank(r)) {
      if (Selected(classes_.cells[c].kind, fix.aspects)) cells.push_back(c);
    }
    if ((fix.aspects & kHead) == 0 || HeadOf(r) == capture::kNone) continue;
    timing.lag[heads_[r].unit] = Toward(graph_.lag[heads_[r].unit], heads_[r].peer_lag, fix.strength);
  }
  for (uint32_t o : fix.owners) {
    if (o < owner_cells_.size()) cells.insert(cells.end(), owner_cells_[o].begin(), owner_cells_[o].end());
  }
  // Cells are sorted by class, so those of one class are contiguous.
  std::sort(cells.begin(), cells.end());
  cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
  std::vector<double> scratch;
  for (size_t first = 0; first < cells.size();) {
    size_t last = first;
    while (last < cells.size() &&
           classes_.cells[cells[last]].class_index == classes_.cells[cells[first]].class_index)
      ++last;
    const std::span<const uint32_t> together = std::span(cells).subspan(first, last - first);
    const uint32_t class_index = classes_.cells[cells[first]].class_index;
    const bool alone =
        together.size() == 1 || together.size() == first_cell_[class_index + 1] - first_cell_[class_index];
    CellStats outside;
    if (!alone) outside = BesideOthers(together[0], together, scratch);
    for (uint32_t c : together) {
      CellStats stats = stats_[c];
      if (!alone) {
        stats.peer_work = outside.peer_work;
        stats.peer_lag = outside.peer_lag;
      }
      ScaleCell(c, stats, fix.strength, timing);
    }
    first = last;
  }
  for (const Piece& p : fix.pieces) {
    std::vector<double>& values = p.node == StartOf(UnitOf(p.node)) ? timing.lag : timing.work;
    values[UnitOf(p.node)] -= fix.strength * p.ns;
  }
}

void TypicalValues::MakeUnitsTypical(std::span<const uint8_t> chosen, double strength, Timing& timing) const {
  for (size_t c = 0; c < stats_.size(); ++c) {
    const std::span<const uint32_t> units = classes_.UnitsOf(classes_.cells[c]);
    if (std::any_of(units.begin(), units.end(), [&](uint32_t u) { return chosen[u] != 0; }))
      ScaleCell(c, stats_[c], strength, timing);
  }
}

Timing TypicalValues::Ideal() const {
  Timing timing = ObservedTiming(graph_);
  for (size_t c = 0; c < stats_.size(); ++c) {
    const bool host = HasLag(classes_.cells[c].kind), works = HasWork(classes_.cells[c].kind);
    for (uint32_t u : classes_.UnitsOf(classes_.cells[c])) {
      if (works) timing.work[u] = stats_[c].all_work;
      if (host && !graph_.units[u].is_head)
        timing.lag[u] = OpensStep(u) ? std::min(stats_[c].own_lag, stats_[c].all_lag) : stats_[c].all_lag;
    }
  }
  std::vector<StepValue> scratch;
  for (uint32_t k = 0; k < classes_.count; ++k) {
    if (classes_.extra_work[k] == 0) LightenClass(first_cell_[k], first_cell_[k + 1], timing, scratch);
  }
  LevelHeads(timing);
  return timing;
}

// In a light step of its class, a unit takes less than its median by as much as the class does.
void TypicalValues::LightenClass(size_t first_cell, size_t last_cell, Timing& timing,
                                 std::vector<StepValue>& scratch) const {
  if (first_cell == last_cell) return;
  const UnitKind kind = classes_.cells[first_cell].kind;
  const ClassSpread& spread = spread_[classes_.cells[first_cell].class_index];
  // use(unit, step, speaks): `speaks` is false for units that repeat a value, because the members of a group
  // make one transfer together.
  const auto for_each = [&](const auto& use) {
    for (size_t c = first_cell; c < last_cell; ++c) {
      const std::span<const uint32_t> units = classes_.UnitsOf(classes_.cells[c]);
      for (uint32_t u : units) {
        const bool speaks = graph_.units[u].rank_index == graph_.units[units[0]].rank_index;
        if (!(HasLag(kind) && graph_.units[u].is_head)) use(u, graph_.units[u].step, speaks);
      }
    }
  };
  const auto lighten = [&](const std::vector<double>& observed, std::vector<double>& ideal,
                           double CellStats::*own, double sigma, double share) {
    std::vector<double> levels;
    for (size_t c = first_cell; c < last_cell; ++c) levels.push_back(stats_[c].*own);
    const double usual = MedianInPlace(std::span(levels));
    scratch.clear();
    for_each([&](uint32_t u, int32_t step, bool speaks) {
      if (speaks) scratch.push_back({step, observed[u]});
    });
    const std::vector<StepValue> light =
        FindLightSteps(std::span(scratch), {.ns = usual, .sigma = sigma, .least_share = share});
    if (light.empty()) return;
    const auto earlier = [](const StepValue& v, int32_t step) { return v.step < step; };
    for_each([&](uint32_t u, int32_t step, bool) {
      const auto found = std::lower_bound(light.begin(), light.end(), step, earlier);
      if (found != light.end() && found->step == step) ideal[u] = Scaled(ideal[u], usual, found->ns);
    });
  };
  if (HasWork(kind)) lighten(graph_.work, timing.work, &CellStats::own_work, spread.work_sigma, kStageNoise);
  if (HasLag(kind)) lighten(graph_.lag, timing.lag, &CellStats::own_lag, spread.lag_sigma, kStageLagNoise);
}

void TypicalValues::Level(Timing& timing) const {
  for (size_t c = 0; c < stats_.size(); ++c) {
    const CellStats& s = stats_[c];
    const bool host = HasLag(classes_.cells[c].kind), works = HasWork(classes_.cells[c].kind);
    const ClassSpread& spread = spread_[classes_.cells[c].class_index];
    for (uint32_t u : classes_.UnitsOf(classes_.cells[c])) {
      if (works)
        timing.work[u] =
            Cut(Scaled(graph_.work[u], s.own_work, s.all_work), s.all_work, spread.work_sigma, kWorkFloorNs);
      if (host && !graph_.units[u].is_head)
        timing.lag[u] = Cut(LevelLag(u, s.all_lag - s.own_lag), s.all_lag, spread.lag_sigma, kLagFloorNs);
    }
  }
  LevelHeads(timing);
}

void TypicalValues::LevelHeads(Timing& timing) const {
  for (const Head& head : heads_) {
    if (head.unit != capture::kNone) timing.lag[head.unit] = head.all_lag;
  }
}

}  // namespace lockstep::analysis
