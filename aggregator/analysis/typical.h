// What a unit would take if its rank (or its link) were like its peers.
//
// Peers' medians per class give the typical value; a rank is made typical by scaling each of its units by (peers' median /
// own median) of its class, so its ordinary noise stays as it is, and by cutting what then still stands out (a pause) to the
// typical value. Healthy ranks hardly change. Only what a rank idles before a step is never made longer: what it came early
// for, the next step or a timer, is not in the capture. Source: docs/analysis.md, "Typical".
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_TYPICAL_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_TYPICAL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "aggregator/analysis/classes.h"
#include "aggregator/analysis/graph.h"
#include "aggregator/analysis/replay.h"

namespace lockstep::analysis {

// Which of a rank's units are made typical.
enum Aspect : uint32_t { kKernels = 1, kHost = 2, kCopies = 4, kHead = 8, kEverything = 15 };

// Medians of one cell beside those of its peers.
struct CellStats {
  double own_work = 0, peer_work = 0, all_work = 0;  // peer: without the owner; all: with it
  double own_lead = 0, peer_lead = 0, all_lead = 0;
  bool has_peers = false;
};

class TypicalValues {
 public:
  // All three must outlive it. `steady`: enough steps were seen that a rank's offset at the window's begin means nothing.
  TypicalValues(const Graph& graph, const Classes& classes, bool steady);

  // Changes `timing` of one rank's own units.
  void MakeRankTypical(uint32_t rank_index, uint32_t aspects, Timing& timing) const;
  // Changes the transfers of one owner (Classes::owners).
  void MakeTransfersTypical(uint32_t owner, Timing& timing) const;
  // Every unit takes its class's median: no straggler and no noise.
  Timing Ideal() const;
  // Every rank and transfer owner is scaled to its class's median and keeps its noise, pauses included.
  void Level(Timing& timing) const;

  // The unit that carries the rank's lateness from before the window, or kNone.
  uint32_t HeadOf(uint32_t rank_index) const { return rank_index < heads_.size() ? heads_[rank_index].unit : store::kNone; }
  // None for a rank without units.
  std::span<const uint32_t> CellsOfRank(uint32_t rank_index) const {
    return rank_index < rank_cells_.size() ? std::span<const uint32_t>(rank_cells_[rank_index]) : std::span<const uint32_t>();
  }
  const std::vector<CellStats>& stats() const { return stats_; }  // as Classes::cells
  const Classes& classes() const { return classes_; }

 private:
  struct ClassSpread {
    double work_sigma = 0, lead_sigma = 0;
  };
  void FindHeads(uint32_t ranks);
  void LevelHeads(Timing& timing) const;
  void MeasureClass(size_t first_cell, size_t last_cell);
  void ScaleCell(size_t cell, Timing& timing) const;
  double Cut(double value, double typical, double sigma, double floor) const;
  bool Selected(UnitKind kind, uint32_t aspects) const;
  static bool IsHost(UnitKind kind) { return kind == UnitKind::kHostCall || kind == UnitKind::kHostWait; }

  bool OpensStep(uint32_t unit) const;
  double LevelLead(uint32_t unit, double change) const;

  const Graph& graph_;
  const Classes& classes_;
  std::vector<CellStats> stats_;
  std::vector<ClassSpread> spread_;               // by class
  std::vector<std::vector<uint32_t>> rank_cells_;   // by rank index
  std::vector<std::vector<uint32_t>> owner_cells_;  // by transfer owner
  // The rank's first host call in the window, where it is compared at all.
  struct Head {
    uint32_t unit = store::kNone;
    double peer_lead = 0, all_lead = 0;
  };
  std::vector<Head> heads_;  // by rank index
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_TYPICAL_H_
