// Which ranks' work can be compared: cells of one class, and beyond that what the ranks of all pipeline
// stages take of the same kernels all together, since stages run them in different orders. Read-only once
// built, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_CELL_PEERS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_CELL_PEERS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/compare/classes.h"
#include "analysis/compare/typical.h"

namespace lockstep::analysis {

// Cells [first, last) of Classes::cells.
struct CellRange {
  uint32_t first, last;
};

// What one rank takes of kernels that several stages run: nanoseconds, the mean over their occurrences in the
// step.
struct StageTotal {
  uint32_t rank_index;
  double work;
};

class CellPeers {
 public:
  // Both must outlive it.
  CellPeers(const Classes& classes, const TypicalValues& typical);

  CellRange CellsOf(uint32_t klass) const { return {first_cell_[klass], first_cell_[klass + 1]}; }
  // Of all stages' ranks, by rank; empty where only one stage does this.
  std::span<const StageTotal> StageTotalsOf(uint32_t klass) const;
  // What the cell would take if its rank were like those of all stages, but for `left_out` (flags by rank
  // index); nullopt: nobody else does the same.
  std::optional<double> WorkOfOtherStages(uint32_t cell, std::span<const uint8_t> left_out) const;
  // Ranks that most of this one's kernel time can be compared with, itself included; 1: nobody.
  uint32_t PeersOf(uint32_t rank_index) const { return rank_index < peers_.size() ? peers_[rank_index] : 1; }

 private:
  void AddUpStages();
  void CountPeers();

  const Classes& classes_;
  const TypicalValues& typical_;
  std::vector<uint32_t> first_cell_;  // of each class, and one past the last
  std::vector<uint32_t> family_of_;   // by class: into families_, or store::kNone
  std::vector<std::vector<StageTotal>> families_;
  std::vector<uint32_t> peers_;  // by rank index, as far as there are any with kernels
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_CELL_PEERS_H_
