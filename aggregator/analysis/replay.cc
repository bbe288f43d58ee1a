#include "aggregator/analysis/replay.h"

#include <algorithm>
#include <limits>

namespace lockstep::analysis {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr NodeRef kNoNode = 0xFFFFFFFF;

bool OnDevice(UnitKind kind) { return kind != UnitKind::kHostCall && kind != UnitKind::kHostWait; }

}  // namespace

void Replay::Run(const Timing& timing) {
  const Graph& g = graph_;
  double* const time = time_.data();
  std::fill(step_end_.begin(), step_end_.end(), kNever);
  const auto last_step = static_cast<int32_t>(step_end_.size()) - 1;
  last_unit_ = store::kNone;
  const auto start = [&](uint32_t u) {
    double ready = 0;
    const uint32_t first = g.start_begin[u], last = g.start_begin[u + 1];
    if (first != last && !g.units[u].is_head) {
      ready = time[g.start_preds[first]];
      for (uint32_t i = first + 1; i < last; ++i) ready = std::max(ready, time[g.start_preds[i]]);
    }
    time[StartOf(u)] = ready + timing.lead[u];
  };
  const auto finish = [&](uint32_t u, double running) {
    const double end = running + timing.work[u];
    time[EndOf(u)] = end;
    const Unit& unit = g.units[u];
    if (unit.step >= 0 && OnDevice(unit.kind)) {
      double& step_end = step_end_[static_cast<size_t>(unit.step)];
      if (end > step_end) {
        step_end = end;
        if (unit.step == last_step) last_unit_ = u;
      }
    }
  };
  for (const uint32_t item : g.program) {
    const uint32_t u = item & ~kProgramKindMask;
    switch (item & kProgramKindMask) {
      case kRunPlain:
        start(u);
        finish(u, time[StartOf(u)]);
        break;
      case kRunStart:
        start(u);
        break;
      case kRunFinish: {
        double running = time[StartOf(u)];
        for (NodeRef p : g.Awaits(u)) running = std::max(running, time[p]);
        finish(u, running);
        break;
      }
      default: {
        double latest = kNever;
        for (uint32_t m : g.Members(g.joins[u])) latest = std::max(latest, time[StartOf(m)]);
        for (uint32_t m : g.Members(g.joins[u])) finish(m, latest);
      }
    }
  }
  // A step without device work ends with the one before.
  double before = first_end_;
  for (double& end : step_end_) before = end = std::max(before, end);
}

std::vector<double> Replay::StepDurations() const {
  std::vector<double> durations;
  durations.reserve(step_end_.size());
  double before = first_end_;
  for (double end : step_end_) {
    durations.push_back(end - before);
    before = end;
  }
  return durations;
}

double Replay::StepTime() const {
  return step_end_.empty() ? 0 : (step_end_.back() - first_end_) / static_cast<double>(step_end_.size());
}

NodeRef Replay::Binding(NodeRef node) const {
  const uint32_t u = UnitOf(node);
  NodeRef binding = kNoNode;
  const auto consider = [&](NodeRef p) {
    if (binding == kNoNode || time_[p] > time_[binding]) binding = p;
  };
  if (node % 2 == 0) {
    if (graph_.units[u].is_head) return kNoNode;
    for (NodeRef p : graph_.StartPreds(u)) consider(p);
  } else if (graph_.join_of[u] != store::kNone) {
    consider(StartOf(u));
    for (uint32_t m : graph_.Members(graph_.joins[graph_.join_of[u]])) consider(StartOf(m));
  } else {
    consider(StartOf(u));
    for (NodeRef p : graph_.Awaits(u)) consider(p);
  }
  return binding;
}

std::vector<NodeRef> Replay::CriticalPath() const {
  std::vector<NodeRef> path;
  NodeRef node = last_unit_ == store::kNone ? kNoNode : EndOf(last_unit_);
  // A path visits each moment once; the limit only guards against a graph that was not built by BuildGraph.
  for (size_t left = time_.size(); node != kNoNode && left > 0; --left) {
    if (graph_.units[UnitOf(node)].step == kBeforeSteps) break;
    path.push_back(node);
    node = Binding(node);
  }
  return path;
}

double FirstEnd(const Graph& graph, const GraphInput& input) {
  double end = kNever;
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    const Unit& unit = graph.units[u];
    if (unit.step == kBeforeSteps && OnDevice(unit.kind)) end = std::max(end, graph.end[u]);
  }
  if (end != kNever) return end;
  double earliest = std::numeric_limits<double>::infinity();
  for (size_t r = 0; r < input.capture.ranks.size(); ++r) {
    if (input.steps.ranks[r].steps.empty() || input.capture.ranks[r].activities.empty()) continue;
    const JobTime begin = input.clock.ToJob(input.capture.ranks[r].host, input.steps.ranks[r].steps.front().host.start);
    earliest = std::min(earliest, static_cast<double>((begin - graph.origin).ns()));
  }
  return earliest == std::numeric_limits<double>::infinity() ? 0 : earliest;
}

}  // namespace lockstep::analysis
