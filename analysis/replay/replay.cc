#include "analysis/replay/replay.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace lockstep::analysis {
namespace {

constexpr double kNotYet = -std::numeric_limits<double>::infinity();

// If more than one item in this many changes, computing all of them is cheaper.
constexpr uint32_t kMostFollowed = 12;

}  // namespace

Replay::Replay(const Schedule& schedule)
    : schedule_(schedule),
      paths_(schedule),
      added_(schedule.slots()),
      time_(schedule.slots()),
      last_of_step_(schedule.steps()),
      step_end_(schedule.steps()),
      stale_steps_(schedule.steps(), 0) {}

void Replay::Run(const Timing& timing) {
  is_known_ = false;
  for (uint32_t s = 0; s < added_.size(); ++s) added_[s] = Added(timing, schedule_.NodeOf(s));
  std::fill(last_of_step_.begin(), last_of_step_.end(), kNotYet);
  Sweep(0);
  EndSteps();
}

void Replay::Sweep(uint32_t item) {
  double* const time = time_.data();
  const double* const added = added_.data();
  double* const step_end = last_of_step_.data();
  const uint32_t* const preds = schedule_.pred_data();
  const int32_t* const step = schedule_.step_data();
  const Schedule::Item* const last = schedule_.item_data() + schedule_.items();
  for (const Schedule::Item* i = schedule_.item_data() + item; i < last; ++i) {
    uint32_t p = i->first_pred;
    const uint32_t last_pred = i[1].first_pred;
    double ready = p < last_pred ? time[preds[p++]] : 0;
    for (; p < last_pred; ++p) ready = std::max(ready, time[preds[p]]);
    for (uint32_t s = i->first_slot; s < i[1].first_slot; ++s) {
      time[s] = ready + added[s];
      if (step[s] >= 0) step_end[step[s]] = std::max(step_end[step[s]], time[s]);
    }
  }
}

// A step without device work ends with the previous step.
void Replay::EndSteps() {
  double before = schedule_.first_end();
  for (size_t k = 0; k < step_end_.size(); ++k) before = step_end_[k] = std::max(before, last_of_step_[k]);
}

void Replay::Rerun(const Timing& timing, std::span<const uint32_t> candidates) {
  if (!is_known_) {
    Run(timing);
    is_known_ = true;
    marked_.assign(schedule_.items() / 64 + 1, 0);
    return;
  }
  MarkChanged(timing, candidates);
  RunMarked();
  EndSteps();
}

void Replay::MarkChanged(const Timing& timing, std::span<const uint32_t> candidates) {
  for (uint32_t u : candidates) {
    for (const NodeRef node : {StartOf(u), EndOf(u)}) {
      const uint32_t slot = schedule_.SlotOf(node);
      const double added = Added(timing, node);
      if (added_[slot] == added) continue;
      added_[slot] = added;
      Mark(schedule_.ItemOf(slot));
    }
  }
}

// Runs the marked items in the order of the schedule, in which followers always come later.
void Replay::RunMarked() {
  uint32_t left = schedule_.items() / kMostFollowed + 1;
  for (uint32_t word = 0; word < marked_.size(); ++word) {
    while (marked_[word] != 0) {
      const uint32_t item = 64 * word + static_cast<uint32_t>(std::countr_zero(marked_[word]));
      if (--left == 0) {
        std::fill(marked_.begin() + word, marked_.end(), 0);
        Sweep(item);
        std::fill(stale_steps_.begin(), stale_steps_.end(), 1);
        break;
      }
      marked_[word] &= marked_[word] - 1;
      Recompute(item);
    }
  }
  FindStepEnds();
}

void Replay::Recompute(uint32_t item) {
  const std::span<const uint32_t> preds = schedule_.Preds(item);
  double ready = preds.empty() ? 0 : time_[preds[0]];
  for (uint32_t p : preds) ready = std::max(ready, time_[p]);
  for (uint32_t s = schedule_.FirstSlot(item); s < schedule_.FirstSlot(item + 1); ++s)
    Move(s, ready + added_[s]);
}

void Replay::Move(uint32_t slot, double to) {
  double& time = time_[slot];
  if (time == to) return;
  if (const int32_t step = schedule_.StepEndedAt(slot); step >= 0) {
    const auto k = static_cast<size_t>(step);
    if (to >= last_of_step_[k]) {
      last_of_step_[k] = to;
    } else if (time == last_of_step_[k]) {
      stale_steps_[k] = 1;
    }
  }
  time = to;
  for (uint32_t item : schedule_.Followers(slot)) Mark(item);
}

void Replay::FindStepEnds() {
  for (size_t k = 0; k < stale_steps_.size(); ++k) {
    if (stale_steps_[k] == 0) continue;
    stale_steps_[k] = 0;
    last_of_step_[k] = kNotYet;
    for (uint32_t s : schedule_.EndsOf(k)) last_of_step_[k] = std::max(last_of_step_[k], time_[s]);
  }
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

std::vector<PathNode> Replay::CriticalPath() {
  if (step_end_.empty()) return {};
  return paths_.Find({.base = time_.data()}, step_end_.back());
}

}  // namespace lockstep::analysis
