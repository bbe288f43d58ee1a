// The replay graph laid out for running: every moment has a slot, in an order in which each comes after what
// it depends on.
//
// A run goes through the slots forwards and reads what lies close behind, which is what makes it fast.
// Read-only once made, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_PROGRAM_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/replay/graph.h"

namespace lockstep::analysis {

class Program {
 public:
  // Moments that wait for the same: one start or end, or the ends of a collective's members.
  struct Item {
    uint32_t first_pred;  // its last is the next item's first; none: nothing is known before it
    uint32_t first_slot;  // likewise
  };

  // `graph` must outlive it. `first_end`: when the step before the first used one ended, fixed in every
  // replay.
  Program(const Graph& graph, size_t steps, double first_end);

  const Graph& graph() const { return graph_; }
  size_t steps() const { return steps_; }
  double first_end() const { return first_end_; }

  size_t slots() const { return node_.size(); }
  uint32_t items() const { return static_cast<uint32_t>(items_.size() - 1); }
  uint32_t SlotOf(NodeRef node) const { return slot_[node]; }
  NodeRef NodeOf(uint32_t slot) const { return node_[slot]; }
  // The used step whose end that moment may be, or -1.
  int32_t StepEndedAt(uint32_t slot) const { return step_[slot]; }
  uint32_t ItemOf(uint32_t slot) const { return item_[slot]; }
  uint32_t FirstSlot(uint32_t item) const { return items_[item].first_slot; }
  // Slots that all of the item's moments wait for.
  std::span<const uint32_t> Preds(uint32_t item) const {
    return {preds_.data() + items_[item].first_pred, items_[item + 1].first_pred - items_[item].first_pred};
  }
  // Items that wait for this moment, all behind it.
  std::span<const uint32_t> Followers(uint32_t slot) const {
    return {followers_.data() + first_follower_[slot], first_follower_[slot + 1] - first_follower_[slot]};
  }
  // Moments that may be the end of that step.
  std::span<const uint32_t> EndsOf(size_t step) const {
    return {ends_.data() + first_of_step_[step], first_of_step_[step + 1] - first_of_step_[step]};
  }
  // For loops over everything: items() + 1 items, and what their first_pred counts.
  const Item* item_data() const { return items_.data(); }
  const uint32_t* pred_data() const { return preds_.data(); }
  const int32_t* step_data() const { return step_.data(); }

 private:
  void Compile();
  void AddMoment(NodeRef node);
  void EndItem();
  void FindFollowers();
  void SortEnds();

  const Graph& graph_;
  size_t steps_;
  double first_end_;
  std::vector<uint32_t> slot_;  // by NodeRef
  std::vector<NodeRef> node_;   // by slot
  std::vector<int32_t> step_;   // by slot
  std::vector<uint32_t> item_;  // by slot
  std::vector<Item> items_;     // and one past the last
  std::vector<uint32_t> preds_;
  std::vector<uint32_t> first_follower_, followers_;
  std::vector<uint32_t> first_of_step_, ends_;
};

// End of the device work before the first used step; where there is none, the earliest begin of that step on
// any rank.
double FirstEnd(const Graph& graph, const GraphInput& input);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_PROGRAM_H_
