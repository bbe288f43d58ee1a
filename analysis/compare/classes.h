// Units that do the same thing and can be compared: across steps, and across ranks that run the same program.
//
// A token says what a unit does (kernel with its grid and block, copy with its bytes, host call with what it
// launches, collective with its operation, bytes and group size). A class is a token, how often it occurs in
// the step, and the how-manieth this is: ranks whose steps hold the same number of a token are peers for it,
// and its n-th occurrence means the same on each. In a pipeline each stage has classes of its own, since
// stages run forward and backward passes in different orders; classes of one token and number in several
// stages are a family, and what they take all together can be compared. What a rank runs beyond what nearly
// all its peers do (surplus.h) has classes of its own, for which the typical is nothing.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_CLASSES_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_CLASSES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/prepare/stages.h"
#include "analysis/replay/graph.h"

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
  uint32_t owner;  // rank index, or into Classes::owners
  uint32_t first;  // into Classes::units
  uint32_t count;
  UnitKind kind;
};

// Classes [first, first + length) are the occurrences of one token in one stage's step.
struct StageFamily {
  uint32_t family;  // the same in every stage
  int32_t stage;
  uint32_t first;
  uint32_t length;
};

struct Classes {
  // By class, owner, time. Those of ranks without host records once more, in classes of kIdle: of them the
  // leads count.
  std::vector<uint32_t> units;
  std::vector<Cell> cells;  // sorted by class, then owner
  std::vector<TransferOwner> owners;
  std::vector<uint32_t> owner_of_instance;  // by instance; store::kNone for unusable ones
  uint32_t count = 0;
  std::vector<uint8_t> surplus;  // by class: nearly nobody does this
  std::vector<StageFamily>
      stage_families;  // of kernels and calls, by family, then stage; none without stages
  std::span<const uint32_t> UnitsOf(const Cell& c) const { return {units.data() + c.first, c.count}; }
};

// Of all units in used steps but communication kernels whose waiting is not known.
// `layout`: without one, or without stages in it, all ranks are compared alike.
Classes Classify(const Graph& graph, const GraphInput& input, const Layout* layout = nullptr);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_CLASSES_H_
