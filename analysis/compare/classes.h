// Groups units that do the same and can be compared: across steps, and across ranks that run the same
// program.
//
// A signature says what a unit does. A kernel has its grid and block, a copy its bytes, a host call the work
// that it launches, a collective its operation, bytes and group size. A class is a signature, its count in
// the step, and the number of the occurrence. Ranks whose steps hold equally many of a signature are peers
// for it, and its n-th occurrence means the same on each. In a pipeline, each stage has its own classes,
// because stages run forward and backward passes in different orders. Classes of one signature and count in
// several stages are a family, whose totals can be compared. Units that a rank runs beyond nearly all its
// peers (extra_work.h) have their own classes, with a typical value of zero.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_CLASSES_H_
#define LOCKSTEP_ANALYSIS_COMPARE_CLASSES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/prepare/stages.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// The owner of transfers: a group, or the pair of ranks that exchanges messages.
struct TransferOwner {
  uint32_t group = capture::kNone;
  std::vector<uint32_t> rank_indices;  // ascending
  bool is_pair = false;
};

// The units of one class that belong to one owner: a rank, or for transfers a group or pair.
struct Cell {
  uint32_t class_index;
  uint32_t owner;  // rank index, or index into Classes::owners
  uint32_t first;  // into Classes::units
  uint32_t count;
  UnitKind kind;
};

// Classes [first, first + length) are the occurrences of one signature in one stage's step.
struct StageFamily {
  uint32_t family;  // the same in every stage
  int32_t stage;
  uint32_t first;
  uint32_t length;
};

struct Classes {
  // Ordered by class, owner, time. Units of ranks without host records occur a second time, in classes of
  // kIdle, whose lags count.
  std::vector<uint32_t> units;
  std::vector<Cell> cells;  // sorted by class, then owner
  std::vector<TransferOwner> owners;
  std::vector<uint32_t> owner_of_instance;  // by instance; capture::kNone for unusable ones
  uint32_t count = 0;
  std::vector<uint8_t> extra_work;  // by class: 1 if nearly no rank does this
  std::vector<StageFamily>
      stage_families;  // for kernels and calls, by family, then stage; empty without stages
  std::span<const uint32_t> UnitsOf(const Cell& c) const { return {units.data() + c.first, c.count}; }
};

// Classifies all units in used steps, except communication kernels whose waiting is unknown.
// If `layout` is null or has no stages, all ranks are compared alike.
Classes Classify(const Graph& graph, const GraphInput& input, const Layout* layout = nullptr);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_COMPARE_CLASSES_H_
