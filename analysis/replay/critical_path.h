// The critical path of a replay: the moments that decided when its last step ended.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_CRITICAL_PATH_H_
#define LOCKSTEP_ANALYSIS_REPLAY_CRITICAL_PATH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/replay/schedule.h"

namespace lockstep::analysis {

// A moment on the critical path. If several predecessors bind at once, the path forks, and its weight divides
// in equal parts. The weights across a cut of the path add up to 1.
struct PathNode {
  NodeRef node;
  double weight;
};

// The moments of one replay, by slot of its schedule.
struct Moments {
  const double* base;
  size_t stride = 1;
  double operator[](uint32_t slot) const { return base[stride * slot]; }
};

// Finds paths in replays of one schedule, which must outlive it. One thread.
class PathFinder {
 public:
  explicit PathFinder(const Schedule& schedule) : schedule_(schedule) {}

  // Follows the path from `end`, when the last step ended, back to the begin of the first used step. The path
  // contains a unit's end if its work is on the path, and its start if its lag is. Symmetric ranks that bind
  // at the same moment share the weight.
  std::vector<PathNode> Find(const Moments& at, double end);

 private:
  // Stores the predecessors that bind the item's moments in ties_; none for an item without predecessors.
  void FindBindings(const Moments& at, uint32_t item);
  void FindLast(const Moments& at, double end);
  void Visit(const Moments& at, uint32_t item, std::vector<PathNode>& path);
  void Spread(double weight);
  bool IsBefore(uint32_t slot) const {
    return schedule_.graph().units[UnitOf(schedule_.NodeOf(slot))].step == kBeforeSteps;
  }

  const Schedule& schedule_;
  std::vector<uint32_t> ties_;  // slots
  std::vector<double>
      weight_;          // by slot: weight of branches that are not followed yet; empty before the first fork
  size_t pending_ = 0;  // moments with a weight that were not visited yet
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_CRITICAL_PATH_H_
