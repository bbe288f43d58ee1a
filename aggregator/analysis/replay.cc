#include "aggregator/analysis/replay.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace lockstep::analysis {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr NodeRef kNoNode = 0xFFFFFFFF;

// Moments closer than this bind together: sums in another order differ by as much.
constexpr double kTieNs = 1e-3;

// Beyond this part of the program following what moves costs more than computing everything.
constexpr size_t kMostFollowed = 12;

}  // namespace

Replay::Replay(const Graph& graph, size_t steps, double first_end, const Followers* followers)
    : graph_(graph),
      time_(graph.units.size() * 2),
      step_end_(steps),
      first_end_(first_end),
      followers_(followers),
      last_of_step_(steps),
      stale_steps_(steps, 0) {
  const auto last = static_cast<int32_t>(steps) - 1;
  entries_.reserve(graph.units.size() + 1);
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    const Unit& unit = graph.units[u];
    const bool device = CountsForStep(unit);
    entries_.push_back({graph.start_begin[u] | (unit.is_head ? kHeadFlag : 0), device ? unit.step : -1});
    if (device && unit.step == last) last_step_units_.push_back(u);
  }
  entries_.push_back({static_cast<uint32_t>(graph.start_preds.size()), -1});
}

void Replay::Run(const Timing& timing) {
  is_known_ = false;
  std::fill(last_of_step_.begin(), last_of_step_.end(), kNever);
  Sweep(timing, 0);
  EndSteps();
}

void Replay::Sweep(const Timing& timing, size_t place) {
  const Graph& g = graph_;
  double* const time = time_.data();
  double* const step_end = last_of_step_.data();
  const Entry* const entries = entries_.data();
  const NodeRef* const preds = g.start_preds.data();
  const double* const lead = timing.lead.data();
  const double* const work = timing.work.data();
  const double* const beside = timing.beside.data();
  const auto start = [&](uint32_t u) {
    double ready = 0;
    const uint32_t first = entries[u].first_pred;
    if ((first & kHeadFlag) == 0) {
      const uint32_t last = entries[u + 1].first_pred & ~kHeadFlag;
      ready = time[preds[first]];
      for (uint32_t i = first + 1; i < last; ++i) ready = std::max(ready, time[preds[i]]);
    }
    time[StartOf(u)] = ready + lead[u];
  };
  const auto finish = [&](uint32_t u, double running) {
    const double end = running + work[u] + beside[u];
    time[EndOf(u)] = end;
    if (const int32_t step = entries[u].counts; step >= 0) step_end[step] = std::max(step_end[step], end);
  };
  for (; place < g.program.size(); ++place) {
    const uint32_t item = g.program[place];
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
}

// A step without device work ends with the one before.
void Replay::EndSteps() {
  double before = first_end_;
  for (size_t k = 0; k < step_end_.size(); ++k) before = step_end_[k] = std::max(before, last_of_step_[k]);
}

void Replay::Rerun(const Timing& timing, std::span<const uint32_t> candidates) {
  if (followers_ == nullptr) return Run(timing);
  if (!is_known_) {
    Run(timing);
    known_ = timing;
    is_known_ = true;
    marked_.assign(graph_.program.size() / 64 + 1, 0);
    return;
  }
  MarkChanged(timing, candidates);
  RunMarked(timing);
  EndSteps();
}

void Replay::MarkChanged(const Timing& timing, std::span<const uint32_t> candidates) {
  const auto mark = [this](uint32_t place) { marked_[place / 64] |= uint64_t{1} << (place % 64); };
  for (uint32_t u : candidates) {
    if (known_.lead[u] != timing.lead[u]) {
      known_.lead[u] = timing.lead[u];
      mark(followers_->PlaceOfStart(u));
    }
    if (known_.work[u] != timing.work[u] || known_.beside[u] != timing.beside[u]) {
      known_.work[u] = timing.work[u];
      known_.beside[u] = timing.beside[u];
      mark(followers_->PlaceOfEnd(u));
    }
  }
}

// In the order of the program: what follows always lies behind.
void Replay::RunMarked(const Timing& timing) {
  size_t left = graph_.program.size() / kMostFollowed + 1;
  for (size_t word = 0; word < marked_.size(); ++word) {
    while (marked_[word] != 0) {
      const size_t place = 64 * word + static_cast<size_t>(std::countr_zero(marked_[word]));
      if (--left == 0) {
        std::fill(marked_.begin() + static_cast<std::ptrdiff_t>(word), marked_.end(), 0);
        Sweep(timing, place);
        std::fill(stale_steps_.begin(), stale_steps_.end(), 1);
        break;
      }
      marked_[word] &= marked_[word] - 1;
      Recompute(timing, graph_.program[place]);
    }
  }
  FindStepEnds();
}

void Replay::Recompute(const Timing& timing, uint32_t item) {
  const uint32_t u = item & ~kProgramKindMask;
  switch (item & kProgramKindMask) {
    case kRunPlain:
      MoveStart(u, Ready(u) + timing.lead[u]);
      MoveEnd(u, time_[StartOf(u)] + timing.work[u] + timing.beside[u]);
      break;
    case kRunStart:
      MoveStart(u, Ready(u) + timing.lead[u]);
      break;
    case kRunFinish: {
      double running = time_[StartOf(u)];
      for (NodeRef p : graph_.Awaits(u)) running = std::max(running, time_[p]);
      MoveEnd(u, running + timing.work[u] + timing.beside[u]);
      break;
    }
    default: {
      double latest = kNever;
      for (uint32_t m : graph_.Members(graph_.joins[u])) latest = std::max(latest, time_[StartOf(m)]);
      for (uint32_t m : graph_.Members(graph_.joins[u])) MoveEnd(m, latest + timing.work[m] + timing.beside[m]);
    }
  }
}

double Replay::Ready(uint32_t unit) const {
  const uint32_t first = entries_[unit].first_pred;
  if ((first & kHeadFlag) != 0) return 0;
  const uint32_t last = entries_[unit + 1].first_pred & ~kHeadFlag;
  double ready = time_[graph_.start_preds[first]];
  for (uint32_t i = first + 1; i < last; ++i) ready = std::max(ready, time_[graph_.start_preds[i]]);
  return ready;
}

void Replay::MoveStart(uint32_t unit, double to) {
  double& time = time_[StartOf(unit)];
  if (time == to) return;
  time = to;
  MarkFollowers(StartOf(unit));
}

void Replay::MoveEnd(uint32_t unit, double to) {
  double& time = time_[EndOf(unit)];
  if (time == to) return;
  if (const int32_t step = entries_[unit].counts; step >= 0) {
    const auto k = static_cast<size_t>(step);
    if (to >= last_of_step_[k]) {
      last_of_step_[k] = to;
    } else if (time == last_of_step_[k]) {
      stale_steps_[k] = 1;
    }
  }
  time = to;
  MarkFollowers(EndOf(unit));
}

void Replay::MarkFollowers(NodeRef node) {
  for (uint32_t place : followers_->Of(node)) marked_[place / 64] |= uint64_t{1} << (place % 64);
}

void Replay::FindStepEnds() {
  for (size_t k = 0; k < stale_steps_.size(); ++k) {
    if (stale_steps_[k] == 0) continue;
    stale_steps_[k] = 0;
    last_of_step_[k] = kNever;
    for (uint32_t u : followers_->DeviceUnitsOf(k)) last_of_step_[k] = std::max(last_of_step_[k], time_[EndOf(u)]);
  }
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

void Replay::FindBindings(NodeRef node) {
  const uint32_t u = UnitOf(node);
  ties_.clear();
  double latest = kNever;
  const auto consider = [&](NodeRef p) {
    if (time_[p] > latest + kTieNs) {
      ties_.clear();
      latest = time_[p];
    } else if (time_[p] < latest - kTieNs) {
      return;
    }
    ties_.push_back(p);
  };
  if (node % 2 == 0) {
    if (graph_.units[u].is_head) return;
    for (NodeRef p : graph_.StartPreds(u)) consider(p);
  } else if (graph_.join_of[u] != store::kNone) {
    for (uint32_t m : graph_.Members(graph_.joins[graph_.join_of[u]])) consider(StartOf(m));
  } else {
    consider(StartOf(u));
    for (NodeRef p : graph_.Awaits(u)) consider(p);
  }
  // One moment may be named twice.
  if (ties_.size() > 1) {
    std::sort(ties_.begin(), ties_.end());
    ties_.erase(std::unique(ties_.begin(), ties_.end()), ties_.end());
  }
}

void Replay::PlaceInProgram() {
  if (!start_place_.empty()) return;
  start_place_.resize(graph_.units.size());
  end_place_.resize(graph_.units.size());
  weight_.assign(2 * graph_.units.size(), 0);
  for (uint32_t i = 0; i < graph_.program.size(); ++i) {
    const uint32_t u = graph_.program[i] & ~kProgramKindMask;
    switch (graph_.program[i] & kProgramKindMask) {
      case kRunPlain: start_place_[u] = end_place_[u] = i; break;
      case kRunStart: start_place_[u] = i; break;
      case kRunFinish: end_place_[u] = i; break;
      default:
        for (uint32_t m : graph_.Members(graph_.joins[u])) end_place_[m] = i;
    }
  }
}

// Hands `weight` on to what binds `node`.
void Replay::Spread(NodeRef node, double weight) {
  FindBindings(node);
  for (NodeRef p : ties_) {
    if (graph_.units[UnitOf(p)].step == kBeforeSteps) continue;
    if (weight_[p] == 0) ++pending_;
    weight_[p] += weight / static_cast<double>(ties_.size());
  }
}

double Replay::Take(NodeRef node, std::vector<PathNode>& path) {
  const double weight = weight_[node];
  if (weight == 0) return 0;
  weight_[node] = 0;
  --pending_;
  path.push_back({node, weight});
  return weight;
}

// What the path weighs at the moments of one item of the program goes on to what comes before them.
void Replay::Visit(uint32_t item, std::vector<PathNode>& path) {
  const uint32_t u = item & ~kProgramKindMask;
  if ((item & kProgramKindMask) == kRunJoin) {
    // The members of a collective wait for the same.
    double weight = 0;
    for (uint32_t m : graph_.Members(graph_.joins[u])) weight += Take(EndOf(m), path);
    if (weight > 0) Spread(EndOf(graph_.join_members[graph_.joins[u].first]), weight);
    return;
  }
  const uint32_t kind = item & kProgramKindMask;
  for (const NodeRef node : {EndOf(u), StartOf(u)}) {
    if (kind == (node % 2 == 0 ? kRunFinish : kRunStart)) continue;
    const double weight = Take(node, path);
    if (weight > 0) Spread(node, weight);
  }
}

std::vector<PathNode> Replay::CriticalPath() {
  std::vector<PathNode> path;
  if (step_end_.empty()) return path;
  ties_.clear();
  for (uint32_t u : last_step_units_) {
    if (time_[EndOf(u)] >= step_end_.back() - kTieNs) ties_.push_back(EndOf(u));
  }
  // The last step may have ended with, or before, an earlier one.
  for (uint32_t u = 0; ties_.empty() && u < graph_.units.size(); ++u) {
    if (graph_.units[u].step >= 0 && OnDevice(graph_.units[u].kind) && time_[EndOf(u)] >= step_end_.back() - kTieNs) ties_.push_back(EndOf(u));
  }
  // One chain as long as nothing binds together; from a fork on, all branches in the reverse order of the program.
  while (ties_.size() == 1) {
    const NodeRef node = ties_[0];
    if (graph_.units[UnitOf(node)].step == kBeforeSteps) return path;
    path.push_back({node, 1.0});
    FindBindings(node);
  }
  if (ties_.empty()) return path;
  PlaceInProgram();
  uint32_t place = 0;
  for (NodeRef p : ties_) {
    if (graph_.units[UnitOf(p)].step == kBeforeSteps) continue;
    weight_[p] = 1.0 / static_cast<double>(ties_.size());
    ++pending_;
    place = std::max(place, (p % 2 == 0 ? start_place_ : end_place_)[UnitOf(p)]);
  }
  for (uint32_t i = place + 1; i > 0 && pending_ > 0; --i) {
    Visit(graph_.program[i - 1], path);
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
