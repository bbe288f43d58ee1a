#include "analysis/gains/host_pace.h"

#include <algorithm>
#include <numeric>

namespace lockstep::analysis {
namespace {

double AllButTheLast(const std::vector<double>& by_step) {
  return by_step.empty() ? 0 : std::accumulate(by_step.begin(), by_step.end() - 1, 0.0);
}

}  // namespace

HostPace::HostPace(const Graph& graph, const Replay& observed) : graph_(&graph) {
  const std::vector<double> steps = observed.StepDurations();
  if (steps.size() < 2) return;
  observed_ns_ = AllButTheLast(steps);
  const auto last_step = static_cast<int32_t>(steps.size()) - 1;
  for (size_t r = 0; r + 1 < graph.rank_begin.size(); ++r) {
    uint32_t first = capture::kNone, last = capture::kNone;
    for (uint32_t u = graph.rank_begin[r]; u < graph.rank_begin[r + 1] && last == capture::kNone; ++u) {
      if (!IsHostUnit(graph.units[u].kind)) continue;
      if (graph.units[u].step == 0 && first == capture::kNone) first = u;
      if (graph.units[u].step == last_step) last = u;
    }
    if (first == capture::kNone || last == capture::kNone) continue;
    RankCalls& rank = ranks_.emplace_back(RankCalls{first, last, {}, 0});
    for (uint32_t u = first; u < last; ++u) {
      if (graph.anchor[u] != u) rank.waits.push_back(u);
    }
    rank.beyond = std::max(0.0, OwnTime(rank, observed) - observed_ns_);
  }
}

double HostPace::OwnTime(const RankCalls& rank, const Replay& replay) const {
  double own = replay.At(StartOf(rank.last)) - replay.At(StartOf(rank.first));
  for (const uint32_t u : rank.waits) {
    const double length = replay.At(EndOf(u)) - replay.At(StartOf(u));
    own -= std::max(0.0, length - std::max(0.0, graph_->work[u]));
  }
  return own;
}

void HostPace::Limit(const Replay& replay, std::vector<double>& gain) const {
  const double sum = AllButTheLast(gain);
  if (sum <= 0) return;
  double slowest = 0;
  for (const RankCalls& r : ranks_) slowest = std::max(slowest, OwnTime(r, replay) - r.beyond);
  const double most = std::max(0.0, observed_ns_ - slowest);
  if (sum <= most) return;
  for (double& g : gain) g *= most / sum;
}

}  // namespace lockstep::analysis
