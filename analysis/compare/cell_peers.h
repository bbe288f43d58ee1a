// Ranks whose work can be compared: those with cells of one class. In pipelines, also the totals of the same
// kernels over the ranks of all stages, because stages run them in different orders. Read-only after
// construction, so any thread may use it.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_CELL_PEERS_H_
#define LOCKSTEP_ANALYSIS_COMPARE_CELL_PEERS_H_

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

// One rank's time for kernels that several stages run, in nanoseconds: the mean over their occurrences in the
// step.
struct StageTotal {
  uint32_t rank_index;
  double work;
};

class CellPeers {
 public:
  // Both must outlive it.
  CellPeers(const Classes& classes, const TypicalValues& typical);

  CellRange CellsOf(uint32_t class_index) const {
    return {first_cell_[class_index], first_cell_[class_index + 1]};
  }
  // Totals of the ranks of all stages, by rank; empty if only one stage does this.
  std::span<const StageTotal> StageTotalsOf(uint32_t class_index) const;
  // The work of the cell if its rank were like those of all stages, without `left_out` (flags by rank index).
  // nullopt: no other rank does the same.
  std::optional<double> WorkOfOtherStages(uint32_t cell, std::span<const uint8_t> left_out) const;
  // Number of ranks with which most of this rank's kernel time can be compared, itself included; 1: no other
  // rank.
  uint32_t PeersOf(uint32_t rank_index) const { return rank_index < peers_.size() ? peers_[rank_index] : 1; }

 private:
  void AddUpStages();
  void CountPeers();

  const Classes& classes_;
  const TypicalValues& typical_;
  std::vector<uint32_t> first_cell_;  // of each class, and one past the last
  std::vector<uint32_t> family_of_;   // by class: index into families_, or capture::kNone
  std::vector<std::vector<StageTotal>> families_;
  std::vector<uint32_t> peers_;  // by rank index, up to the last rank with kernels
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_COMPARE_CELL_PEERS_H_
