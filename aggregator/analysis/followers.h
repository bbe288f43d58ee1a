// What must be computed anew when a moment of the replay moves: the graph's edges forwards, by place in its program.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_FOLLOWERS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_FOLLOWERS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "aggregator/analysis/graph.h"

namespace lockstep::analysis {

// A place is an index into Graph::program. Read-only once made, any thread.
class Followers {
 public:
  // `graph` is not needed afterwards. `steps`: how many are used.
  Followers(const Graph& graph, size_t steps);

  uint32_t PlaceOfStart(uint32_t unit) const { return start_place_[unit]; }
  uint32_t PlaceOfEnd(uint32_t unit) const { return end_place_[unit]; }
  // Places that read this moment. A unit whose end is computed where its start is does not follow itself.
  std::span<const uint32_t> Of(NodeRef node) const { return {places_.data() + begin_[node], begin_[node + 1] - begin_[node]}; }
  // Units whose ends may be the end of that step.
  std::span<const uint32_t> DeviceUnitsOf(size_t step) const {
    return {device_units_.data() + step_begin_[step], step_begin_[step + 1] - step_begin_[step]};
  }

 private:
  void FindPlaces(const Graph& graph);
  void FindFollowers(const Graph& graph);
  void SortByStep(const Graph& graph, size_t steps);

  std::vector<uint32_t> start_place_, end_place_;
  std::vector<uint32_t> begin_;  // into places_, by NodeRef
  std::vector<uint32_t> places_;
  std::vector<uint32_t> step_begin_;
  std::vector<uint32_t> device_units_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_FOLLOWERS_H_
