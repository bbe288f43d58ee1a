#include "aggregator/analysis/followers.h"

namespace lockstep::analysis {

Followers::Followers(const Graph& graph, size_t steps) {
  FindPlaces(graph);
  FindFollowers(graph);
  SortByStep(graph, steps);
}

void Followers::FindPlaces(const Graph& graph) {
  start_place_.resize(graph.units.size());
  end_place_.resize(graph.units.size());
  for (uint32_t i = 0; i < graph.program.size(); ++i) {
    const uint32_t u = graph.program[i] & ~kProgramKindMask;
    switch (graph.program[i] & kProgramKindMask) {
      case kRunPlain: start_place_[u] = end_place_[u] = i; break;
      case kRunStart: start_place_[u] = i; break;
      case kRunFinish: end_place_[u] = i; break;
      default:
        for (uint32_t m : graph.Members(graph.joins[u])) end_place_[m] = i;
    }
  }
}

void Followers::FindFollowers(const Graph& graph) {
  const auto units = static_cast<uint32_t>(graph.units.size());
  const auto each_edge = [&](const auto& use) {
    for (uint32_t u = 0; u < units; ++u) {
      if (!graph.units[u].is_head) {
        for (NodeRef p : graph.StartPreds(u)) use(p, start_place_[u]);
      }
      if (end_place_[u] == start_place_[u]) continue;
      use(StartOf(u), end_place_[u]);
      if (graph.join_of[u] != store::kNone) continue;
      for (NodeRef p : graph.Awaits(u)) use(p, end_place_[u]);
    }
  };
  // Two places late: filling moves every begin to where it belongs.
  begin_.assign(2 * size_t{units} + 2, 0);
  each_edge([&](NodeRef from, uint32_t) { ++begin_[from + 2]; });
  for (size_t n = 2; n < begin_.size(); ++n) begin_[n] += begin_[n - 1];
  places_.resize(begin_.back());
  each_edge([&](NodeRef from, uint32_t place) { places_[begin_[from + 1]++] = place; });
}

void Followers::SortByStep(const Graph& graph, size_t steps) {
  step_begin_.assign(steps + 2, 0);
  const auto each_unit = [&](const auto& use) {
    for (uint32_t u = 0; u < graph.units.size(); ++u) {
      if (CountsForStep(graph.units[u])) use(static_cast<size_t>(graph.units[u].step), u);
    }
  };
  each_unit([&](size_t step, uint32_t) { ++step_begin_[step + 2]; });
  for (size_t k = 2; k < step_begin_.size(); ++k) step_begin_[k] += step_begin_[k - 1];
  device_units_.resize(step_begin_.back());
  each_unit([&](size_t step, uint32_t u) { device_units_[step_begin_[step + 1]++] = u; });
}

}  // namespace lockstep::analysis
