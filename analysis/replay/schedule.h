// The replay graph in an executable order. Every moment has a slot, which comes after the slots of its
// dependencies.
//
// A run goes through the slots forwards and reads mostly nearby slots, which makes it fast. Read-only after
// construction, so any thread may use it.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_SCHEDULE_H_
#define LOCKSTEP_ANALYSIS_REPLAY_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/replay/graph.h"

namespace lockstep::analysis {

class Schedule {
 public:
  // Moments with equal predecessors: one start or end, or the ends of a collective's members.
  struct Item {
    uint32_t first_pred;  // the next item's first_pred ends the list; empty: no known predecessor
    uint32_t first_slot;  // likewise
  };

  // `graph` must outlive it. `first_end`: end of the step before the first used one, which is fixed in every
  // replay.
  Schedule(const Graph& graph, size_t steps, double first_end);

  const Graph& graph() const { return graph_; }
  size_t steps() const { return steps_; }
  double first_end() const { return first_end_; }

  size_t slots() const { return node_.size(); }
  uint32_t items() const { return static_cast<uint32_t>(items_.size() - 1); }
  uint32_t SlotOf(NodeRef node) const { return slot_[node]; }
  NodeRef NodeOf(uint32_t slot) const { return node_[slot]; }
  // The used step that may end with that moment, or -1.
  int32_t StepEndedAt(uint32_t slot) const { return step_[slot]; }
  uint32_t ItemOf(uint32_t slot) const { return item_[slot]; }
  uint32_t FirstSlot(uint32_t item) const { return items_[item].first_slot; }
  // Slots that all of the item's moments wait for.
  std::span<const uint32_t> Preds(uint32_t item) const {
    return {preds_.data() + items_[item].first_pred, items_[item + 1].first_pred - items_[item].first_pred};
  }
  // Items that wait for this moment. All of them come later.
  std::span<const uint32_t> Followers(uint32_t slot) const {
    return {followers_.data() + first_follower_[slot], first_follower_[slot + 1] - first_follower_[slot]};
  }
  // Moments that may be the end of that step.
  std::span<const uint32_t> EndsOf(size_t step) const {
    return {ends_.data() + first_of_step_[step], first_of_step_[step + 1] - first_of_step_[step]};
  }
  // For loops over the whole schedule: items() + 1 items, and the predecessors that first_pred indexes.
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

// End of the device work before the first used step. Without such work, the earliest begin of that step on
// any rank.
double FirstEnd(const Graph& graph, const GraphInput& input);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_SCHEDULE_H_
