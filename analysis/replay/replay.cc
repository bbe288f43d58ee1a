#include "analysis/replay/replay.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace lockstep::analysis {
namespace {

constexpr double kNotYet = -std::numeric_limits<double>::infinity();

// If more than one node in this many changes, computing all of them is cheaper.
constexpr uint32_t kMostFollowed = 12;
// Distance in places at which a sweep asks for memory.
constexpr uint32_t kAhead = 16;

}  // namespace

Replay::Replay(const Schedule& schedule)
    : schedule_(schedule),
      time_(2 * schedule.graph().units.size()),
      last_of_step_(schedule.steps()),
      step_end_(schedule.steps()),
      stale_steps_(schedule.steps(), 0) {}

void Replay::Run(const Durations& timing) {
  is_known_ = false;
  Sweep(timing, 0);
  for (size_t k = 0; k < last_of_step_.size(); ++k) FindStepEnd(k);
  EndSteps();
}

// The moment at which all predecessors have happened.
inline double Replay::ReadyAt(std::span<const NodeRef> preds) const {
  const double* const time = time_.data();
  double ready = preds.empty() ? 0 : time[preds[0]];
  for (size_t p = 1; p < preds.size(); ++p) ready = std::max(ready, time[preds[p]]);
  return ready;
}

void Replay::Sweep(const Durations& timing, uint32_t place) {
  const Graph& graph = schedule_.graph();
  const uint32_t units = graph.FirstBarrierNode();
  const auto places = static_cast<uint32_t>(graph.order.size());
  const uint32_t* const order = graph.order.data();
  double* const time = time_.data();
  for (; place < places; ++place) {
    // Ranks lie far apart in memory, and the order goes through many of them in turn.
    if (const uint32_t next = order[std::min(place + kAhead, places - 1)]; next < units) {
      __builtin_prefetch(timing.lag + next);
      __builtin_prefetch(timing.work + next);
      __builtin_prefetch(timing.contention + next);
      __builtin_prefetch(time + StartOf(next), 1);
    }
    const uint32_t node = order[place];
    const std::span<const NodeRef> preds = graph.PredsAt(place);
    const double ready = ReadyAt(preds);
    if (node < units) {
      const double start = ready + timing.lag[node];
      time[StartOf(node)] = start;
      // Written in any case, which is faster than a branch. The end of a barrier or of a wait comes later.
      time[EndOf(node)] = start + timing.ToEnd(node);
    } else {
      graph.ForEachEnd(node, preds, [&](uint32_t u) { time[EndOf(u)] = ready + timing.ToEnd(u); });
    }
  }
}

// A step without device work ends with the previous step.
void Replay::EndSteps() {
  double before = schedule_.first_end();
  for (size_t k = 0; k < step_end_.size(); ++k) before = step_end_[k] = std::max(before, last_of_step_[k]);
}

void Replay::Rerun(const Durations& timing, std::span<const uint32_t> candidates) {
  if (!is_known_) {
    Run(timing);
    is_known_ = true;
    marked_.assign(schedule_.nodes() / 64 + 1, 0);
    return;
  }
  MarkCandidates(candidates);
  RunMarked(timing);
  EndSteps();
}

void Replay::MarkCandidates(std::span<const uint32_t> candidates) {
  const Graph& graph = schedule_.graph();
  for (uint32_t u : candidates) {
    Mark(graph.place[u]);
    if (graph.anchor[u] != u) Mark(graph.place[graph.anchor[u]]);
  }
}

// Runs the marked nodes in the order of the schedule, in which followers always come later.
void Replay::RunMarked(const Durations& timing) {
  uint32_t left = schedule_.nodes() / kMostFollowed + 1;
  for (uint32_t word = 0; word < marked_.size(); ++word) {
    while (marked_[word] != 0) {
      const uint32_t place = 64 * word + static_cast<uint32_t>(std::countr_zero(marked_[word]));
      if (--left == 0) {
        std::fill(marked_.begin() + word, marked_.end(), 0);
        Sweep(timing, place);
        std::fill(stale_steps_.begin(), stale_steps_.end(), 1);
        break;
      }
      marked_[word] &= marked_[word] - 1;
      Recompute(timing, place);
    }
  }
  for (size_t k = 0; k < stale_steps_.size(); ++k) {
    if (stale_steps_[k] != 0) FindStepEnd(k);
    stale_steps_[k] = 0;
  }
}

void Replay::Recompute(const Durations& timing, uint32_t place) {
  const Graph& graph = schedule_.graph();
  const auto mark_followers = [this](uint32_t unit) {
    for (uint32_t follower : schedule_.Followers(unit)) Mark(follower);
  };
  const uint32_t node = graph.order[place];
  const std::span<const NodeRef> preds = graph.PredsAt(place);
  const double ready = ReadyAt(preds);
  if (node >= graph.FirstBarrierNode()) {
    graph.ForEachEnd(node, preds, [&](uint32_t u) {
      if (MoveEnd(u, ready + timing.ToEnd(u))) mark_followers(u);
    });
    return;
  }
  const double start = ready + timing.lag[node];
  bool moved = start != time_[StartOf(node)];
  time_[StartOf(node)] = start;
  if (graph.anchor[node] == node) {
    moved |= MoveEnd(node, start + timing.ToEnd(node));
  } else if (moved) {
    Mark(graph.place[graph.anchor[node]]);
  }
  if (moved) mark_followers(node);
}

// Returns false if the end was there before.
bool Replay::MoveEnd(uint32_t unit, double to) {
  double& time = time_[EndOf(unit)];
  if (time == to) return false;
  if (const Unit& of = schedule_.graph().units[unit]; CountsForStep(of)) {
    const auto k = static_cast<size_t>(of.step);
    if (to >= last_of_step_[k]) {
      last_of_step_[k] = to;
    } else if (time == last_of_step_[k]) {
      stale_steps_[k] = 1;
    }
  }
  time = to;
  return true;
}

void Replay::FindStepEnd(size_t step) {
  double last = kNotYet;
  for (uint32_t u : schedule_.EndsOf(step)) last = std::max(last, time_[EndOf(u)]);
  last_of_step_[step] = last;
}

std::vector<double> Replay::StepDurations() const {
  std::vector<double> durations;
  durations.reserve(step_end_.size());
  double before = schedule_.first_end();
  for (double end : step_end_) {
    durations.push_back(end - before);
    before = end;
  }
  return durations;
}

std::vector<PathNode> Replay::CriticalPath() const {
  if (step_end_.empty()) return {};
  return PathFinder(schedule_).Find(Moments(time_.data()), step_end_.back());
}

}  // namespace lockstep::analysis
