// The critical path of a replay: the moments that decided when its last step ended.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_CRITICAL_PATH_H_
#define LOCKSTEP_ANALYSIS_REPLAY_CRITICAL_PATH_H_

#include <cstddef>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/replay/schedule.h"
#include "analysis/replay/timing.h"

namespace lockstep::analysis {

// A moment on the critical path. If several predecessors bind at once, the path forks, and its weight divides
// in equal parts. The weights across a cut of the path add up to 1.
struct PathNode {
  NodeRef node;
  double weight;
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
  // The end of a unit and the ends of all members of a barrier have equal predecessors, so they are visited
  // together. The number grows along the schedule.
  using Visit = uint64_t;
  Visit VisitOf(NodeRef moment) const;
  // Stores the predecessors that bind in ties_; none for a moment without predecessors.
  void FindBindings(const Moments& at, NodeRef moment);
  void FindLast(const Moments& at, double end);
  // Adds the moments of this visit to the path, and passes their weight on to the predecessors.
  void VisitMoments(const Moments& at, NodeRef moment, std::vector<PathNode>& path);
  void Take(NodeRef moment, std::vector<PathNode>& path, double& sum);
  void Spread(double weight);
  bool IsBefore(NodeRef moment) const { return schedule_.graph().units[UnitOf(moment)].step == kBeforeSteps; }

  const Schedule& schedule_;
  std::vector<NodeRef> ties_;
  // Weight of branches that are not followed yet, and the moments with a weight, latest first.
  absl::flat_hash_map<NodeRef, double> weight_;
  std::priority_queue<std::pair<Visit, NodeRef>> pending_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_CRITICAL_PATH_H_
