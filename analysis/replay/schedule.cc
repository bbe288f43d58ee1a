#include "analysis/replay/schedule.h"

#include <algorithm>
#include <limits>

namespace lockstep::analysis {

Schedule::Schedule(const Graph& graph, size_t steps, double first_end)
    : graph_(graph), steps_(steps), first_end_(first_end) {
  const size_t moments = 2 * graph.units.size();
  slot_.resize(moments);
  node_.reserve(moments);
  step_.reserve(moments);
  item_.reserve(moments);
  items_.reserve(moments + 1);
  preds_.reserve(graph.start_preds.size() + graph.awaits.size() + graph.units.size());
  Compile();
  FindFollowers();
  SortEnds();
}

void Schedule::AddMoment(NodeRef node) {
  const Unit& unit = graph_.units[UnitOf(node)];
  slot_[node] = static_cast<uint32_t>(node_.size());
  node_.push_back(node);
  step_.push_back(node % 2 != 0 && CountsForStep(unit) ? unit.step : -1);
  item_.push_back(static_cast<uint32_t>(items_.size() - 1));
}

// Completes the current item and starts the next one.
void Schedule::EndItem() {
  items_.push_back({static_cast<uint32_t>(preds_.size()), static_cast<uint32_t>(node_.size())});
}

void Schedule::Compile() {
  const auto wait_for = [this](NodeRef node) { preds_.push_back(slot_[node]); };
  EndItem();
  for (const uint32_t entry : graph_.order) {
    const uint32_t kind = entry & kOrderKindMask, u = entry & ~kOrderKindMask;
    if (kind == kRunBarrier) {
      for (uint32_t m : graph_.Members(graph_.barriers[u])) {
        wait_for(StartOf(m));
        AddMoment(EndOf(m));
      }
      EndItem();
      continue;
    }
    if (kind != kRunFinish) {
      if (!graph_.units[u].is_head) {
        for (NodeRef p : graph_.StartPreds(u)) wait_for(p);
      }
      AddMoment(StartOf(u));
      EndItem();
    }
    if (kind != kRunStart) {
      wait_for(StartOf(u));
      if (kind == kRunFinish) {
        for (NodeRef p : graph_.Awaits(u)) wait_for(p);
      }
      AddMoment(EndOf(u));
      EndItem();
    }
  }
}

void Schedule::FindFollowers() {
  // Begins are stored two places late, because filling moves each begin to its place.
  first_follower_.assign(slots() + 2, 0);
  for (uint32_t p : preds_) ++first_follower_[p + 2];
  for (size_t s = 2; s < first_follower_.size(); ++s) first_follower_[s] += first_follower_[s - 1];
  followers_.resize(preds_.size());
  for (uint32_t i = 0; i < items(); ++i) {
    for (uint32_t p : Preds(i)) followers_[first_follower_[p + 1]++] = i;
  }
}

void Schedule::SortEnds() {
  first_of_step_.assign(steps_ + 2, 0);
  for (int32_t step : step_) {
    if (step >= 0) ++first_of_step_[static_cast<size_t>(step) + 2];
  }
  for (size_t k = 2; k < first_of_step_.size(); ++k) first_of_step_[k] += first_of_step_[k - 1];
  ends_.resize(first_of_step_.back());
  for (uint32_t s = 0; s < step_.size(); ++s) {
    if (step_[s] >= 0) ends_[first_of_step_[static_cast<size_t>(step_[s]) + 1]++] = s;
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
