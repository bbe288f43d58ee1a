// Units that do the same thing and can be compared: across steps, and across ranks that run the same program.
//
// A token says what a unit does (kernel with its grid and block, copy with its bytes, host call with what it launches,
// collective with its operation, bytes and group size). A class is a token, how often it occurs in the step, and the how-manieth
// this is: ranks whose steps hold the same number of a token are peers for it, and its n-th occurrence means the same on each.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_CLASSES_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_CLASSES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "aggregator/analysis/graph.h"

namespace lockstep::analysis {

// Whose the transfers are: a group's, or for messages the pair's that exchanges them.
struct TransferOwner {
  uint32_t group = store::kNone;
  std::vector<uint32_t> rank_indices;  // ascending
  bool is_pair = false;
};

// The units of one class that one owner has: a rank, or for transfers a group or pair.
struct Cell {
  uint32_t klass;
  uint32_t owner;   // rank index, or into Classes::owners
  uint32_t first;   // into Classes::units
  uint32_t count;
  UnitKind kind;
};

struct Classes {
  std::vector<uint32_t> units;  // by class, owner, time
  std::vector<Cell> cells;      // sorted by class, then owner
  std::vector<TransferOwner> owners;
  std::vector<uint32_t> owner_of_instance;  // by instance; store::kNone for incomplete ones
  uint32_t count = 0;
  std::span<const uint32_t> UnitsOf(const Cell& c) const { return {units.data() + c.first, c.count}; }
};

// Of all units in used steps but communication kernels whose partners are unknown.
Classes Classify(const Graph& graph, const GraphInput& input);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_CLASSES_H_
