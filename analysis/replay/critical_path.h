// What decided when the last step of a replay ended.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_CRITICAL_PATH_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_CRITICAL_PATH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/replay/schedule.h"

namespace lockstep::analysis {

// A moment on the critical path. Where several predecessors bind at once the path forks and its weight with
// it, in equal parts; the weights of a cut through the path add up to 1.
struct PathNode {
  NodeRef node;
  double weight;
};

// The moments of one replay, by slot of its program.
struct Moments {
  const double* base;
  size_t stride = 1;
  double operator[](uint32_t slot) const { return base[stride * slot]; }
};

// Finds paths in replays of one program, which must outlive it. One thread.
class PathFinder {
 public:
  explicit PathFinder(const Program& program) : program_(program) {}

  // From `end`, when the last step ended, back to the begin of the first used step: a unit's end where its
  // work was on the path, its start where its lead was. Symmetric ranks that bind at the same moment share
  // it.
  std::vector<PathNode> Find(const Moments& at, double end);

 private:
  // The predecessors that bind the item's moments, in ties_; none for what nothing comes before.
  void FindBindings(const Moments& at, uint32_t item);
  void FindLast(const Moments& at, double end);
  void Visit(const Moments& at, uint32_t item, std::vector<PathNode>& path);
  void Spread(double weight);
  bool IsBefore(uint32_t slot) const {
    return program_.graph().units[UnitOf(program_.NodeOf(slot))].step == kBeforeSteps;
  }

  const Program& program_;
  std::vector<uint32_t> ties_;  // slots
  std::vector<double> weight_;  // by slot, where a forked path still is; none before the first fork
  size_t pending_ = 0;          // moments with a weight that were not visited yet
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_CRITICAL_PATH_H_
