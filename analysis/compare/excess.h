// The time of ranks and links beyond that of their peers, step by step and unit by unit.
//
// A rank is compared with the ranks that do the same. These are the ranks of its pipeline stage, or, if those
// are too few, the ranks of all stages by the totals of the same kernels. A rank's level is its median in
// each cell. If it was slow only in some steps, those steps have their own medians. A single value far above
// the level is a pause. Time by which all ranks' kernels take longer from some step on belongs to no rank. It
// is removed first and kept as the common factor. Source: docs/causes.md. Read-only after construction, so
// any thread may use it.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_EXCESS_H_
#define LOCKSTEP_ANALYSIS_COMPARE_EXCESS_H_

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

// One rank's work of one kind, or one owner's transfers, in nanoseconds.
struct ExcessSeries {
  std::vector<double> by_step;  // time beyond its peers in each used step, without pauses
  double typical_ns = 0;        // its peers' time per step
  Regime regime;
};

class Excess {
 public:
  // All references must outlive it. `stage_of`: pipeline stage by rank index, negative if unknown.
  Excess(const GraphInput& input, const Graph& graph, const Classes& classes, const TypicalValues& typical,
         std::vector<int32_t> stage_of);

  const ExcessSeries& OfRank(uint32_t rank_index, WorkKind kind) const {
    return ranks_[rank_index * kWorkKinds + static_cast<size_t>(kind)];
  }
  const ExcessSeries& OfOwner(uint32_t owner) const { return owners_[owner]; }
  // Share by which all ranks' kernels take longer in each step than in the fast ones; empty: no shift.
  const std::vector<double>& common() const { return common_; }
  // The stage of all members, if they share one that is known; otherwise negative.
  int32_t StageOfOwner(uint32_t owner) const;

  // By rank index: the rank's level beyond the median of all ranks that do the same, relative to that median.
  // Slow steps count by their number. All ranks have one reference, so that they can be compared with each
  // other. 0: no other rank does the same.
  std::vector<double> RelativeLevels(WorkKind kind) const;

  // The pieces by which the ranks' levels exceed those of the ranks outside the set, in all steps or in the
  // slow ones of a split regime. If a class has no rank outside, each rank's own peers are used.
  Pieces LevelPieces(std::span<const uint32_t> rank_indices, WorkKind kind) const;
  Pieces PausePieces(uint32_t rank_index) const;
  Pieces CommonPieces() const;

  // The work of the cell's others per unit. It is valid if has_reference().
  double ReferenceWork(uint32_t cell) const { return references_[cell].work; }
  bool has_reference(uint32_t cell) const { return references_[cell].known; }

  // Number of ranks with which most of this rank's work can be compared, itself included; 1: no other rank.
  uint32_t PeersOf(uint32_t rank_index) const { return peers_.PeersOf(rank_index); }

 private:
  struct Level {
    double work = 0, lag = 0;
  };
  struct Reference {
    double work = 0, lag = 0;
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
  // Level of a cell, in its slow steps only or in the others.
  Level LevelOf(uint32_t cell, bool slow) const;
  // Reference of a cell: its others without the `left_out` owners.
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

#endif  // LOCKSTEP_ANALYSIS_COMPARE_EXCESS_H_
