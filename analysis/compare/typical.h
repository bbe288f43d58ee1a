// Typical values: the time of a unit if its rank or its link were like its peers.
//
// The peers' medians per class give the typical value. To make a rank typical, each of its units is scaled by
// (peers' median / own median) of its class, so its ordinary noise stays. A value that then still stands out
// (a pause) is cut to the typical value. Healthy ranks hardly change. The idle time of a rank before a step
// is never made longer. The reason for it, the next step or a timer, is not in the capture. Source:
// docs/analysis/typical.md.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_TYPICAL_H_
#define LOCKSTEP_ANALYSIS_COMPARE_TYPICAL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/compare/classes.h"
#include "analysis/compare/light_steps.h"
#include "analysis/compare/pieces.h"
#include "analysis/replay/graph.h"
#include "analysis/replay/replay.h"

namespace lockstep::analysis {

// Flags for the units of a rank that are made typical.
enum Aspect : uint32_t { kKernels = 1, kHost = 2, kCopies = 4, kHead = 8, kEverything = 15 };

// Work of ranks, and transfers of groups and pairs, that are made typical together.
struct Fix {
  std::vector<uint32_t> rank_indices;
  uint32_t aspects = kEverything;  // of those ranks
  std::vector<uint32_t> owners;    // indices into Classes::owners
  Pieces pieces;                   // parts of units outside of these, which the fix removes
  double strength = 1;             // part of the way from observed to typical
};

// Medians of one cell and of its peers.
struct CellStats {
  double own_work = 0, peer_work = 0, all_work = 0;  // peer: without the owner; all: with it
  double own_lag = 0, peer_lag = 0, all_lag = 0;
  bool has_peers = false;
};

class TypicalValues {
 public:
  // All references must outlive it. `steady`: there are so many steps that a rank's offset at the window's
  // begin means nothing.
  TypicalValues(const Graph& graph, const Classes& classes, bool steady);

  // Changes `timing` of all units that `fix` names. Their reference is the peers outside of the fix. If a
  // class has none there, each one's own peers are used.
  void MakeTypical(const Fix& fix, Timing& timing) const;
  // Makes the cells typical that contain a chosen unit (flags by unit), each compared with its own peers.
  void MakeUnitsTypical(std::span<const uint8_t> chosen, double strength, Timing& timing) const;
  // Calls use(unit) for every transfer of these owners that has a class.
  template <typename Use>
  void ForEachTransfer(std::span<const uint32_t> owners, Use use) const {
    for (uint32_t o : owners) {
      if (o >= owner_cells_.size()) continue;
      for (uint32_t c : owner_cells_[o]) {
        for (uint32_t u : classes_.UnitsOf(classes_.cells[c])) use(u);
      }
    }
  }
  // Every unit takes its class's median, or less in steps that hold less of it for all ranks (light_steps.h).
  // The result has no straggler and no noise.
  Timing Ideal() const;
  // Every rank and transfer owner is scaled to its class's median and keeps its noise, without pauses.
  void Level(Timing& timing) const;

  // True for the rank's first host call of a step, or its first unit without host records. The time before it
  // is not work.
  bool OpensStep(uint32_t unit) const;
  // The unit that carries the rank's lateness from before the window, or kNone.
  uint32_t HeadOf(uint32_t rank_index) const {
    return rank_index < heads_.size() ? heads_[rank_index].unit : capture::kNone;
  }
  // Empty for a rank without units.
  std::span<const uint32_t> CellsOfRank(uint32_t rank_index) const {
    return rank_index < rank_cells_.size() ? std::span<const uint32_t>(rank_cells_[rank_index])
                                           : std::span<const uint32_t>();
  }
  const std::vector<CellStats>& stats() const { return stats_; }  // indexed as Classes::cells
  const Classes& classes() const { return classes_; }

 private:
  struct ClassSpread {
    double work_sigma = 0, lag_sigma = 0;
  };
  void FindHeads(uint32_t ranks);
  void LevelHeads(Timing& timing) const;
  void LightenClass(size_t first_cell, size_t last_cell, Timing& timing,
                    std::vector<StepValue>& scratch) const;
  void MeasureClass(size_t first_cell, size_t last_cell);
  void CompareStages();
  void CompareFamily(std::span<const StageFamily> family);
  double StageMean(const StageFamily& family, double CellStats::*value) const;
  void ScaleCell(size_t cell, const CellStats& stats, double strength, Timing& timing) const;
  CellStats BesideOthers(size_t cell, std::span<const uint32_t> fixed, std::vector<double>& scratch) const;
  static double Toward(double observed, double typical, double strength);
  static double Scaled(double work, double own, double typical);
  double Cut(double value, double typical, double sigma, double floor) const;
  static bool Selected(UnitKind kind, uint32_t aspects);
  static bool HasWork(UnitKind kind) { return kind != UnitKind::kIdle; }

  double LevelLag(uint32_t unit, double change) const;

  const Graph& graph_;
  const Classes& classes_;
  std::vector<CellStats> stats_;
  std::vector<ClassSpread> spread_;                 // by class
  std::vector<uint32_t> first_cell_;                // of each class, and one past the last
  std::vector<std::vector<uint32_t>> rank_cells_;   // by rank index
  std::vector<std::vector<uint32_t>> owner_cells_;  // by transfer owner
  // The rank's first host call in the window, if it is compared at all.
  struct Head {
    uint32_t unit = capture::kNone;
    double peer_lag = 0, all_lag = 0;
  };
  std::vector<Head> heads_;  // by rank index
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_COMPARE_TYPICAL_H_
