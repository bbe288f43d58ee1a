#include "analysis/replay/critical_path.h"

#include <algorithm>
#include <limits>

namespace lockstep::analysis {
namespace {

// Moments closer than this bind together, because sums in a different order differ by as much.
constexpr double kTieNs = 1e-3;

}  // namespace

PathFinder::Visit PathFinder::VisitOf(NodeRef moment) const {
  const uint32_t u = UnitOf(moment), anchor = schedule_.graph().anchor[u];
  if (moment % 2 == 0) return 2 * Visit{schedule_.graph().place[u]};
  // A plain end comes right after its start.
  return 2 * Visit{schedule_.graph().place[anchor]} + (anchor == u ? 1 : 0);
}

void PathFinder::FindBindings(const Moments& at, NodeRef moment) {
  const Graph& graph = schedule_.graph();
  ties_.clear();
  double latest = -std::numeric_limits<double>::infinity();
  const auto wait_for = [&](NodeRef p) {
    const double time = at[p];
    if (time > latest + kTieNs) {
      ties_.clear();
      latest = time;
    } else if (time < latest - kTieNs) {
      return;
    }
    ties_.push_back(p);
  };
  const uint32_t u = UnitOf(moment);
  if (moment % 2 != 0 && graph.anchor[u] == u) {
    wait_for(StartOf(u));
  } else {
    for (NodeRef p : graph.Preds(moment % 2 == 0 ? u : graph.anchor[u])) wait_for(p);
  }
  // One moment may be listed twice.
  if (ties_.size() > 1) {
    std::sort(ties_.begin(), ties_.end());
    ties_.erase(std::unique(ties_.begin(), ties_.end()), ties_.end());
  }
}

// The last step may have ended together with an earlier one, or before it.
void PathFinder::FindLast(const Moments& at, double end) {
  ties_.clear();
  for (size_t step = schedule_.steps(); step > 0 && ties_.empty(); --step) {
    for (uint32_t u : schedule_.EndsOf(step - 1)) {
      if (at.End(u) >= end - kTieNs) ties_.push_back(EndOf(u));
    }
  }
}

// Passes `weight` on to the predecessors that bind, in equal parts.
void PathFinder::Spread(double weight) {
  for (NodeRef p : ties_) {
    if (IsBefore(p)) continue;
    const auto [known, fresh] = weight_.try_emplace(p, 0);
    if (fresh) pending_.push({VisitOf(p), p});
    known->second += weight / static_cast<double>(ties_.size());
  }
}

void PathFinder::Take(NodeRef moment, std::vector<PathNode>& path, double& sum) {
  const auto known = weight_.find(moment);
  if (known == weight_.end()) return;
  path.push_back({moment, known->second});
  sum += known->second;
  weight_.erase(known);
}

void PathFinder::VisitMoments(const Moments& at, NodeRef moment, std::vector<PathNode>& path) {
  const Graph& graph = schedule_.graph();
  double sum = 0;
  if (moment % 2 != 0 && graph.InBarrier(UnitOf(moment))) {
    for (NodeRef start : graph.Preds(graph.anchor[UnitOf(moment)])) Take(EndOf(UnitOf(start)), path, sum);
  } else {
    Take(moment, path, sum);
  }
  if (sum == 0) return;
  FindBindings(at, moment);
  Spread(sum);
}

std::vector<PathNode> PathFinder::Find(const Moments& at, double end) {
  std::vector<PathNode> path;
  FindLast(at, end);
  // Without ties, the path is one chain. From a fork on, all branches are followed in the reverse order of
  // the schedule.
  while (ties_.size() == 1) {
    const NodeRef moment = ties_[0];
    if (IsBefore(moment)) return path;
    path.push_back({moment, 1.0});
    FindBindings(at, moment);
  }
  if (ties_.empty()) return path;
  Spread(1);
  while (!pending_.empty()) {
    const NodeRef moment = pending_.top().second;
    pending_.pop();
    VisitMoments(at, moment, path);
  }
  return path;
}

}  // namespace lockstep::analysis
