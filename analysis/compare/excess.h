// What ranks and links take beyond their peers, step by step and unit by unit.
//
// A rank is compared with those that do the same: of its pipeline stage where that has enough ranks, else of
// all stages by what the same kernels take all together. A rank's level is the median of each of its cells;
// where it was slow only in some steps, those steps have medians of their own. What stands out of the level
// by itself is a pause. What all ranks' kernels take longer from some step on is nobody's: it is taken off
// first and kept as the common factor. Source: docs/causes.md. Read-only once built, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_EXCESS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_EXCESS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/compare/cell_peers.h"
#include "analysis/compare/classes.h"
#include "analysis/compare/host_pauses.h"
#include "analysis/compare/pieces.h"
#include "analysis/compare/regimes.h"
#include "analysis/compare/typical.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

enum class WorkKind : uint8_t { kKernels, kCopies, kHost };
inline constexpr size_t kWorkKinds = 3;

// One rank's work of one kind, or one owner's transfers. Nanoseconds.
struct ExcessSeries {
  std::vector<double> by_step;  // beyond its peers in each used step, pauses left out
  double typical_ns = 0;        // what its peers take per step
  Regime regime;
};

class Excess {
 public:
  // All of them must outlive it. `stage_of`: pipeline stage by rank index, negative where unknown.
  Excess(const GraphInput& input, const Graph& graph, const Classes& classes, const TypicalValues& typical,
         std::vector<int32_t> stage_of);

  const ExcessSeries& OfRank(uint32_t rank_index, WorkKind kind) const {
    return ranks_[rank_index * kWorkKinds + static_cast<size_t>(kind)];
  }
  const ExcessSeries& OfOwner(uint32_t owner) const { return owners_[owner]; }
  // By how much all ranks' kernels take longer in each step than in the fast ones; empty: no shift.
  const std::vector<double>& common() const { return common_; }
  // Of the members, where it is one and known; else negative.
  int32_t StageOfOwner(uint32_t owner) const;

  // By rank index: its level beyond the middle one of all ranks that do the same, relative to what those
  // take; slow steps count as many as they are. One yardstick for all, for comparing ranks with each other. 0
  // where nobody does the same.
  std::vector<double> RelativeLevels(WorkKind kind) const;

  // What the ranks' levels are above those of the ranks outside of the set (of their own peers where a class
  // has nobody outside), in all steps or in the slow ones of a split regime.
  Pieces LevelPieces(std::span<const uint32_t> rank_indices, WorkKind kind) const;
  Pieces PausePieces(uint32_t rank_index) const;
  Pieces CommonPieces() const;

  // What the cell's others take of the same, per unit; whether there are any is in has_reference().
  double ReferenceWork(uint32_t cell) const { return references_[cell].work; }
  bool has_reference(uint32_t cell) const { return references_[cell].known; }

  // Ranks that most of this one's work can be compared with, itself included; 1: nobody.
  uint32_t PeersOf(uint32_t rank_index) const { return peers_.PeersOf(rank_index); }

 private:
  struct Level {
    double work = 0, lead = 0;
  };
  struct Reference {
    double work = 0, lead = 0;
    bool known = false;
  };
  static WorkKind KindOf(UnitKind kind);
  ExcessSeries& SeriesAt(const Cell& cell);
  const ExcessSeries& SeriesAt(const Cell& cell) const;
  double CommonAt(const Cell& cell, uint32_t unit) const;
  bool Opens(uint32_t unit) const;
  void FindReferences();
  void AddUp();
  void FindCommon();
  std::vector<double> MiddleOf(std::span<const uint32_t> rank_indices) const;
  void TakeOffMiddle();
  void FindRegimes();
  // What all cells' levels are; of cells in slow steps only or in the others.
  Level LevelOf(uint32_t cell, bool slow) const;
  // The yardstick of a cell: its others but for those of `left_out` owners.
  Reference ReferenceFor(uint32_t cell, std::span<const uint8_t> left_out) const;
  void AppendLevel(uint32_t cell, const Reference& peers, Pieces& pieces) const;

  const GraphInput& in_;
  const Graph& graph_;
  const Classes& classes_;
  const TypicalValues& typical_;
  size_t steps_;
  CellPeers peers_;
  HostPauses pauses_;
  std::vector<Reference> references_;  // by cell
  std::vector<ExcessSeries> ranks_, owners_;
  std::vector<double> common_;
  std::vector<int32_t> stage_of_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_EXCESS_H_
