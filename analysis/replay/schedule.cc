#include "analysis/replay/schedule.h"

#include <algorithm>
#include <limits>

namespace lockstep::analysis {

Schedule::Schedule(const Graph& graph, size_t steps, double first_end)
    : graph_(graph), steps_(steps), first_end_(first_end) {
  FindFollowers();
  SortEnds();
}

void Schedule::FindFollowers() {
  const auto each = [this](const auto& use) {
    for (uint32_t place = 0; place < nodes(); ++place) {
      const uint32_t node = graph_.order[place];
      if (node >= graph_.FirstBarrierNode() && node < graph_.FirstWaitingNode()) continue;
      const size_t own = node < graph_.FirstBarrierNode() ? 0 : 1;
      for (NodeRef p : graph_.PredsAt(place).subspan(own)) use(UnitOf(p), place);
    }
  };
  // Begins are stored two places late, because filling moves each begin to its place.
  first_follower_.assign(graph_.units.size() + 2, 0);
  each([this](uint32_t unit, uint32_t) { ++first_follower_[unit + 2]; });
  for (size_t u = 2; u < first_follower_.size(); ++u) first_follower_[u] += first_follower_[u - 1];
  followers_.resize(first_follower_.back());
  each([this](uint32_t unit, uint32_t place) { followers_[first_follower_[unit + 1]++] = place; });
}

void Schedule::SortEnds() {
  first_of_step_.assign(steps_ + 2, 0);
  for (const Unit& unit : graph_.units) {
    if (CountsForStep(unit)) ++first_of_step_[static_cast<size_t>(unit.step) + 2];
  }
  for (size_t k = 2; k < first_of_step_.size(); ++k) first_of_step_[k] += first_of_step_[k - 1];
  ends_.resize(first_of_step_.back());
  for (uint32_t u = 0; u < graph_.units.size(); ++u) {
    const Unit& unit = graph_.units[u];
    if (CountsForStep(unit)) ends_[first_of_step_[static_cast<size_t>(unit.step) + 1]++] = u;
  }
}

double FirstEnd(const Graph& graph, const GraphInput& input) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  double end = kNever;
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    const Unit& unit = graph.units[u];
    if (unit.step == kBeforeSteps && OnDevice(unit.kind)) end = std::max(end, graph.end[u]);
  }
  if (end != kNever) return end;
  double earliest = std::numeric_limits<double>::infinity();
  for (size_t r = 0; r < input.capture.ranks.size(); ++r) {
    if (input.steps.ranks[r].steps.empty() || input.capture.ranks[r].activities.empty()) continue;
    const JobTime begin =
        input.clock.ToJob(input.capture.ranks[r].host, input.steps.ranks[r].steps.front().host.start);
    earliest = std::min(earliest, static_cast<double>((begin - graph.origin).ns()));
  }
  return earliest == std::numeric_limits<double>::infinity() ? 0 : earliest;
}

}  // namespace lockstep::analysis
