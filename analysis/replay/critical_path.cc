#include "analysis/replay/critical_path.h"

#include <algorithm>
#include <limits>

namespace lockstep::analysis {
namespace {

// Moments closer than this bind together, because sums in a different order differ by as much.
constexpr double kTieNs = 1e-3;

}  // namespace

void PathFinder::FindBindings(const Moments& at, uint32_t item) {
  ties_.clear();
  double latest = -std::numeric_limits<double>::infinity();
  for (uint32_t p : schedule_.Preds(item)) {
    const double moment = at[p];
    if (moment > latest + kTieNs) {
      ties_.clear();
      latest = moment;
    } else if (moment < latest - kTieNs) {
      continue;
    }
    ties_.push_back(p);
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
    for (uint32_t s : schedule_.EndsOf(step - 1)) {
      if (at[s] >= end - kTieNs) ties_.push_back(s);
    }
  }
}

// Passes `weight` on to the predecessors that bind, in equal parts.
void PathFinder::Spread(double weight) {
  for (uint32_t p : ties_) {
    if (IsBefore(p)) continue;
    if (weight_[p] == 0) ++pending_;
    weight_[p] += weight / static_cast<double>(ties_.size());
  }
}

// Adds the weighted moments of one item to the path, and passes their weight on to the predecessors.
void PathFinder::Visit(const Moments& at, uint32_t item, std::vector<PathNode>& path) {
  double sum = 0;
  for (uint32_t s = schedule_.FirstSlot(item); s < schedule_.FirstSlot(item + 1); ++s) {
    if (weight_[s] == 0) continue;
    path.push_back({schedule_.NodeOf(s), weight_[s]});
    sum += weight_[s];
    weight_[s] = 0;
    --pending_;
  }
  if (sum == 0) return;
  FindBindings(at, item);
  Spread(sum);
}

std::vector<PathNode> PathFinder::Find(const Moments& at, double end) {
  std::vector<PathNode> path;
  FindLast(at, end);
  // Without ties, the path is one chain. From a fork on, all branches are followed in the reverse order of
  // the schedule.
  while (ties_.size() == 1) {
    const uint32_t slot = ties_[0];
    if (IsBefore(slot)) return path;
    path.push_back({schedule_.NodeOf(slot), 1.0});
    FindBindings(at, schedule_.ItemOf(slot));
  }
  if (ties_.empty()) return path;
  weight_.resize(schedule_.slots(), 0);
  Spread(1);
  for (uint32_t i = schedule_.ItemOf(*std::max_element(ties_.begin(), ties_.end())) + 1;
       i > 0 && pending_ > 0; --i) {
    Visit(at, i - 1, path);
  }
  return path;
}

}  // namespace lockstep::analysis
