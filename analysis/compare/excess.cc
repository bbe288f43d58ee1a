#include "analysis/compare/excess.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/prepare/stats.h"
#include "base/median.h"

namespace lockstep::analysis {
namespace {

// The levels of a regime differ by at least this share of the typical time.
constexpr double kLeastRegime = 0.015;
// A shift of all ranks is at least this share.
constexpr double kLeastCommon = 0.015;
// A middle rank needs at least this many ranks.
constexpr size_t kLeastForMiddle = 4;
// Ranks of a stage are compared among themselves if there are at least this many.
constexpr size_t kLeastOfStage = 6;

}  // namespace

Excess::Excess(const GraphInput& input, const Graph& graph, const Classes& classes,
               const TypicalValues& typical, std::vector<int32_t> stage_of)
    : in_(input),
      graph_(graph),
      classes_(classes),
      typical_(typical),
      steps_(input.steps.count()),
      peers_(classes, typical),
      pauses_(graph, classes, typical),
      stage_of_(std::move(stage_of)) {
  stage_of_.resize(input.capture.ranks.size(), -1);
  ranks_.resize(input.capture.ranks.size() * kWorkKinds);
  owners_.resize(classes.owners.size());
  for (ExcessSeries& s : ranks_) s.by_step.assign(steps_, 0);
  for (ExcessSeries& s : owners_) s.by_step.assign(steps_, 0);
  FindReferences();
  AddUp();
  FindCommon();
  FindRegimes();
}

WorkKind Excess::KindOf(UnitKind kind) {
  return kind == UnitKind::kKernel ? WorkKind::kKernels
         : kind == UnitKind::kCopy ? WorkKind::kCopies
                                   : WorkKind::kHost;
}

ExcessSeries& Excess::SeriesAt(const Cell& cell) {
  return cell.kind == UnitKind::kTransfer
             ? owners_[cell.owner]
             : ranks_[cell.owner * kWorkKinds + static_cast<size_t>(KindOf(cell.kind))];
}
const ExcessSeries& Excess::SeriesAt(const Cell& cell) const {
  return cell.kind == UnitKind::kTransfer
             ? owners_[cell.owner]
             : ranks_[cell.owner * kWorkKinds + static_cast<size_t>(KindOf(cell.kind))];
}

double Excess::CommonAt(const Cell& cell, uint32_t unit) const {
  return common_.empty() || cell.kind != UnitKind::kKernel
             ? 0
             : common_[static_cast<size_t>(graph_.units[unit].step)];
}

// True for the rank's first host call of a step. The idle time before it is not all its own.
bool Excess::Opens(uint32_t unit) const {
  const Unit& u = graph_.units[unit];
  return unit == 0 || graph_.units[unit - 1].rank_index != u.rank_index ||
         graph_.units[unit - 1].step != u.step;
}

void Excess::AddUp() {
  for (uint32_t c = 0; c < classes_.cells.size(); ++c) {
    const Cell& cell = classes_.cells[c];
    const Reference& peers = references_[c];
    if (!peers.known) continue;
    ExcessSeries& series = SeriesAt(cell);
    series.typical_ns +=
        (std::max(0.0, peers.work) + std::max(0.0, peers.lag)) * cell.count / static_cast<double>(steps_);
    for (uint32_t u : classes_.UnitsOf(cell)) {
      double& step = series.by_step[static_cast<size_t>(graph_.units[u].step)];
      if (cell.kind != UnitKind::kIdle) step += graph_.work[u] - peers.work;
      if (HasLag(cell.kind) && !graph_.units[u].is_head) step += graph_.lag[u] - peers.lag - pauses_.At(c, u);
    }
  }
}

// By step: the median over these ranks of their kernels' time beyond typical, relative.
std::vector<double> Excess::MiddleOf(std::span<const uint32_t> rank_indices) const {
  std::vector<double> middle(steps_, 0), scratch;
  for (size_t k = 0; k < steps_; ++k) {
    scratch.clear();
    for (uint32_t r : rank_indices) {
      const ExcessSeries& s = OfRank(r, WorkKind::kKernels);
      if (s.typical_ns > 0) scratch.push_back(s.by_step[k] / s.typical_ns);
    }
    middle[k] = MedianInPlace(std::span(scratch));
  }
  return middle;
}

// A run of steps in which nearly all ranks' kernels are slower is not the fault of a rank.
void Excess::FindCommon() {
  std::vector<double> least(steps_, 0), scratch;
  for (size_t k = 0; k < steps_; ++k) {
    scratch.clear();
    for (uint32_t r = 0; r < in_.capture.ranks.size(); ++r) {
      const ExcessSeries& s = OfRank(r, WorkKind::kKernels);
      if (s.typical_ns > 0) scratch.push_back(s.by_step[k] / s.typical_ns);
    }
    // The lower quartile: three quarters of the ranks shift by at least this.
    if (scratch.empty()) continue;
    std::sort(scratch.begin(), scratch.end());
    least[k] = scratch[(scratch.size() - 1) / 4];
  }
  const Regime shift = FindChangePoint(least, kLeastCommon);
  if (shift.split()) {
    std::vector<double> fast, slow;
    for (size_t k = 0; k < steps_; ++k) (shift.SlowAt(k) ? slow : fast).push_back(least[k]);
    const double factor = (1 + Median(slow)) / (1 + Median(fast)) - 1;
    common_.assign(steps_, 0);
    for (size_t k = 0; k < steps_; ++k) common_[k] = shift.SlowAt(k) ? factor : 0;
  }
  TakeOffMiddle();
}

// Subtracts the deviation of a stage's middle rank in each step, so that regimes are those of single ranks. A
// few ranks have no middle one.
void Excess::TakeOffMiddle() {
  std::map<int32_t, std::vector<uint32_t>> stages;
  std::vector<uint32_t> all;
  for (uint32_t r = 0; r < in_.capture.ranks.size(); ++r) {
    all.push_back(r);
    stages[stage_of_[r]].push_back(r);
  }
  const std::vector<double> middle_of_all =
      all.size() < kLeastForMiddle ? std::vector<double>(steps_, 0) : MiddleOf(all);
  for (const auto& [stage, ranks] : stages) {
    std::vector<double> middle =
        stage >= 0 && ranks.size() >= kLeastOfStage ? MiddleOf(ranks) : middle_of_all;
    if (all.size() < kLeastForMiddle && !common_.empty()) middle = common_;
    for (uint32_t r : ranks) {
      ExcessSeries& s = ranks_[r * kWorkKinds];
      for (size_t k = 0; k < steps_; ++k) s.by_step[k] -= middle[k] * s.typical_ns;
    }
  }
}

int32_t Excess::StageOfOwner(uint32_t owner) const {
  const auto& members = classes_.owners[owner].rank_indices;
  const int32_t stage = stage_of_[members[0]];
  return std::all_of(members.begin(), members.end(), [&](uint32_t r) { return stage_of_[r] == stage; })
             ? stage
             : -1;
}

void Excess::FindRegimes() {
  std::vector<double> relative(steps_);
  const auto find = [&](ExcessSeries& s) {
    if (s.typical_ns <= 0) return;
    for (size_t k = 0; k < steps_; ++k) relative[k] = s.by_step[k] / s.typical_ns;
    s.regime = FindRegime(relative, kLeastRegime);
  };
  for (ExcessSeries& s : ranks_) find(s);
  for (ExcessSeries& s : owners_) find(s);
}

// ---- levels

Excess::Level Excess::LevelOf(uint32_t c, bool slow) const {
  const Cell& cell = classes_.cells[c];
  const CellStats& s = typical_.stats()[c];
  const ExcessSeries& series = SeriesAt(cell);
  if (!series.regime.split() && common_.empty()) return {s.own_work, s.own_lag};
  std::vector<double> scratch;
  const auto median = [&](const std::vector<double>& values, bool work) {
    scratch.clear();
    for (uint32_t u : classes_.UnitsOf(cell)) {
      if (series.regime.split() && series.regime.SlowAt(static_cast<size_t>(graph_.units[u].step)) != slow)
        continue;
      if (work) {
        scratch.push_back(values[u] / (1 + CommonAt(cell, u)));
      } else if (!graph_.units[u].is_head) {
        scratch.push_back(values[u]);
      }
    }
    // If the cell has no units in these steps, take its median over all steps.
    return scratch.empty() ? (work ? s.own_work : s.own_lag) : MedianInPlace(std::span(scratch));
  };
  Level level{cell.kind == UnitKind::kIdle ? 0 : median(graph_.work, true), 0};
  if (HasLag(cell.kind)) level.lag = median(graph_.lag, false);
  return level;
}

Excess::Reference Excess::ReferenceFor(uint32_t c, std::span<const uint8_t> left_out) const {
  const Cell& cell = classes_.cells[c];
  if (classes_.extra_work[cell.class_index] != 0) return {0, 0, true};
  const bool transfers = cell.kind == UnitKind::kTransfer;
  std::vector<double> works, lags;
  const CellRange alike = peers_.CellsOf(cell.class_index);
  for (uint32_t other = alike.first; other < alike.last; ++other) {
    const uint32_t owner = classes_.cells[other].owner;
    if (other == c || (!transfers && owner < left_out.size() && left_out[owner] != 0)) continue;
    const Level level = LevelOf(other, false);
    works.push_back(level.work);
    lags.push_back(level.lag);
  }
  if (works.size() + 1 < kLeastOfStage) {
    if (const auto work = peers_.WorkOfOtherStages(c, left_out)) return {*work, 0, true};
  }
  if (works.empty()) return {};
  return {MedianInPlace(std::span(works)), MedianInPlace(std::span(lags)), true};
}

// The same as ReferenceFor with no rank left out, for all cells. Sorts once per class, because classes of
// large jobs have thousands of cells.
void Excess::FindReferences() {
  references_.resize(classes_.cells.size());
  std::vector<double> works;
  for (uint32_t k = 0; k < classes_.count; ++k) {
    const auto [first, last] = peers_.CellsOf(k);
    works.clear();
    for (uint32_t c = first; c < last; ++c) works.push_back(typical_.stats()[c].own_work);
    std::sort(works.begin(), works.end());
    for (uint32_t c = first; c < last; ++c) {
      Reference& reference = references_[c];
      if (classes_.extra_work[k] != 0) reference = {0, 0, true};
      if (works.size() < kLeastOfStage) {
        if (const auto work = peers_.WorkOfOtherStages(c, {})) reference = {*work, 0, true};
      }
      if (reference.known || works.size() < 2) continue;
      const CellStats& s = typical_.stats()[c];
      // No transfer is faster than its path, and one bad card may slow half of the transfers between hosts.
      // So the lower quartile is the reference.
      if (classes_.cells[c].kind == UnitKind::kTransfer) {
        reference = {works[(works.size() - 1) / 4], 0, true};
        continue;
      }
      reference = {SortedMedianWithout(works, s.own_work), s.peer_lag, true};
    }
  }
}

void Excess::AppendLevel(uint32_t c, const Reference& peers, Pieces& pieces) const {
  const Cell& cell = classes_.cells[c];
  const ExcessSeries& series = SeriesAt(cell);
  for (const bool slow : {false, true}) {
    if (slow && !series.regime.split()) break;
    const Level own = LevelOf(c, slow);
    const bool scales = own.work > 0 && peers.work > 0;
    for (uint32_t u : classes_.UnitsOf(cell)) {
      if (series.regime.split() && series.regime.SlowAt(static_cast<size_t>(graph_.units[u].step)) != slow)
        continue;
      const double work = scales ? graph_.work[u] / (1 + CommonAt(cell, u)) * (1 - peers.work / own.work)
                                 : own.work - peers.work;
      if (work != 0 && cell.kind != UnitKind::kIdle) pieces.push_back({EndOf(u), work});
      if (!HasLag(cell.kind) || graph_.units[u].is_head) continue;
      const double lag = own.lag - peers.lag;
      // The idle time of a rank before a step is never made longer.
      if (lag != 0 && (lag > 0 || !Opens(u))) pieces.push_back({StartOf(u), lag});
    }
  }
}

std::vector<double> Excess::RelativeLevels(WorkKind kind) const {
  std::vector<double> beyond(in_.capture.ranks.size(), 0), typical(beyond), works, lags;
  for (uint32_t k = 0; k < classes_.count; ++k) {
    const auto [first, last] = peers_.CellsOf(k);
    if (first == last || classes_.cells[first].kind == UnitKind::kTransfer ||
        KindOf(classes_.cells[first].kind) != kind)
      continue;
    const std::span<const StageTotal> totals = peers_.StageTotalsOf(k);
    const bool by_family = last - first < kLeastOfStage && !totals.empty();
    const bool extra_work = classes_.extra_work[k] != 0;
    if (!by_family && !extra_work && last - first < 2) continue;
    works.clear();
    lags.clear();
    if (by_family) {
      for (const StageTotal& t : totals) works.push_back(t.work);
    } else {
      for (uint32_t c = first; c < last; ++c) {
        const Level level = LevelOf(c, false);
        works.push_back(level.work);
        lags.push_back(level.lag);
      }
    }
    const double middle_work = extra_work ? 0 : Median(works), middle_lag = extra_work ? 0 : Median(lags);
    for (uint32_t c = first; c < last; ++c) {
      const Cell& cell = classes_.cells[c];
      const Regime& regime = SeriesAt(cell).regime;
      double slow = 0;
      for (uint32_t u : classes_.UnitsOf(cell))
        slow += regime.SlowAt(static_cast<size_t>(graph_.units[u].step)) ? 1 : 0;
      const Level own = LevelOf(c, false);
      const Level when_slow = slow > 0 ? LevelOf(c, true) : own;
      Level middle{middle_work, middle_lag};
      if (by_family) {
        const auto total = std::find_if(totals.begin(), totals.end(),
                                        [&](const StageTotal& t) { return t.rank_index == cell.owner; });
        middle = {total->work > 0 ? typical_.stats()[c].own_work * middle_work / total->work : own.work,
                  own.lag};
      }
      beyond[cell.owner] += (own.work + own.lag - middle.work - middle.lag) * (cell.count - slow) +
                            (when_slow.work + when_slow.lag - middle.work - middle.lag) * slow;
      typical[cell.owner] += (middle.work + middle.lag) * cell.count;
    }
  }
  for (size_t r = 0; r < beyond.size(); ++r) beyond[r] = typical[r] > 0 ? beyond[r] / typical[r] : 0;
  return beyond;
}

Pieces Excess::LevelPieces(std::span<const uint32_t> rank_indices, WorkKind kind) const {
  Pieces pieces;
  std::vector<uint8_t> left_out(in_.capture.ranks.size(), 0);
  for (uint32_t r : rank_indices) left_out[r] = 1;
  for (uint32_t r : rank_indices) {
    for (uint32_t c : typical_.CellsOfRank(r)) {
      if (KindOf(classes_.cells[c].kind) != kind) continue;
      Reference peers =
          rank_indices.size() == 1 && common_.empty() ? references_[c] : ReferenceFor(c, left_out);
      // If no rank is outside the set, use each rank's own peers.
      if (!peers.known) peers = references_[c];
      if (peers.known) AppendLevel(c, peers, pieces);
    }
  }
  return pieces;
}

Pieces Excess::PausePieces(uint32_t rank_index) const {
  Pieces pieces;
  for (uint32_t c : typical_.CellsOfRank(rank_index)) {
    if (!HasLag(classes_.cells[c].kind)) continue;
    for (uint32_t u : classes_.UnitsOf(classes_.cells[c])) {
      if (const double pause = pauses_.At(c, u); pause > 0) pieces.push_back({StartOf(u), pause});
    }
  }
  return pieces;
}

Pieces Excess::CommonPieces() const {
  Pieces pieces;
  if (common_.empty()) return pieces;
  for (const Cell& cell : classes_.cells) {
    if (cell.kind != UnitKind::kKernel) continue;
    for (uint32_t u : classes_.UnitsOf(cell)) {
      const double factor = CommonAt(cell, u);
      if (factor > 0) pieces.push_back({EndOf(u), graph_.work[u] * factor / (1 + factor)});
    }
  }
  return pieces;
}

}  // namespace lockstep::analysis
