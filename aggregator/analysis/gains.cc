#include "aggregator/analysis/gains.h"

#include <algorithm>
#include <future>
#include <numeric>

namespace lockstep::analysis {
namespace {

using store::kNone;

// Every rank is replayed up to this many; beyond it only those on which the split puts most of the cost.
constexpr size_t kReplayedRanks = 64;
// Refining the split stops where it moves less than this part of the lost time; what is left is spread in proportion.
constexpr double kSplitTolerance = 1e-3;

}  // namespace

Gains::Gains(const GraphInput& input)
    : in_(input),
      steps_(input.steps.count()),
      graph_(BuildGraph(input)),
      classes_(Classify(graph_, input)),
      typical_(graph_, classes_, steps_ >= kLeastSteps),
      replay_(graph_, steps_, FirstEnd(graph_, input)) {}

void Gains::Measure() {
  if (empty()) return;
  replay_.Run(FreshTiming());
  step_durations_ = replay_.StepDurations();
  step_ns_ = replay_.StepTime();
  ideal_ = typical_.Ideal();
  // The split and the replays of single ranks need nothing of each other.
  std::future<Attribution> split = std::async(std::launch::async | std::launch::deferred, [this] { return Split(); });
  MeasureVariants();
  const bool few = in_.capture.ranks.size() <= kReplayedRanks;
  if (few) MeasureRanks();
  GatherCosts(split.get());
  if (!few) MeasureRanks();
}

// The observed values, in memory that every replay shares.
Timing& Gains::FreshTiming() {
  scratch_.lead = graph_.lead;
  scratch_.work = graph_.work;
  return scratch_;
}

std::vector<double> Gains::Replayed(const Timing& timing) {
  replay_.Run(timing);
  std::vector<double> gain = replay_.StepDurations();
  for (size_t k = 0; k < gain.size(); ++k) gain[k] = step_durations_[k] - gain[k];
  return gain;
}

std::vector<double> Gains::Of(const Fix& fix) {
  if (empty()) return {};
  Timing& timing = FreshTiming();
  for (uint32_t r : fix.rank_indices) typical_.MakeRankTypical(r, fix.aspects, timing);
  for (uint32_t o : fix.owners) typical_.MakeTransfersTypical(o, timing);
  return Replayed(timing);
}

Attribution Gains::Split() const {
  Replay replay(graph_, steps_, FirstEnd(graph_, in_));
  Timing scratch;
  return Attribute(graph_, replay, ideal_, scratch, steps_, kSplitTolerance);
}

void Gains::MeasureVariants() {
  Timing& timing = FreshTiming();
  typical_.Level(timing);
  replay_.Run(timing);
  levelled_step_ns_ = replay_.StepTime();
  FreshTiming();
  for (uint32_t u = 0; u < graph_.units.size(); ++u) {
    if (graph_.units[u].kind == UnitKind::kTransfer) timing.work[u] = 0;
  }
  replay_.Run(timing);
  transfer_free_step_ns_ = replay_.StepTime();
}

// The additive split, gathered per rank and kind of unit, and per group for transfers.
void Gains::GatherCosts(const Attribution& split) {
  lost_ns_ = PerStep(split.lost);
  rank_costs_.resize(in_.capture.ranks.size());
  owner_costs_.assign(classes_.owners.size(), 0);
  for (uint32_t u = 0; u < graph_.units.size(); ++u) {
    if (split.cost[u] == 0) continue;
    const Unit& unit = graph_.units[u];
    const double cost = PerStep(split.cost[u]);
    RankCost& rank = rank_costs_[unit.rank_index];
    if (u == typical_.HeadOf(unit.rank_index)) {
      rank.head += cost;
      continue;
    }
    switch (unit.kind) {
      case UnitKind::kKernel: rank.kernels += cost; break;
      case UnitKind::kCopy: rank.copies += cost; break;
      case UnitKind::kTransfer:
        if (unit.instance != kNone) owner_costs_[classes_.owner_of_instance[unit.instance]] += cost;
        break;
      default: rank.host += cost;
    }
  }
}

void Gains::MeasureRanks() {
  const size_t ranks = in_.capture.ranks.size();
  rank_gains_.resize(ranks);
  std::vector<uint32_t> order(ranks);
  std::iota(order.begin(), order.end(), 0u);
  if (ranks > kReplayedRanks) {
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return rank_costs_[a].total() > rank_costs_[b].total(); });
    order.resize(kReplayedRanks);
  }
  for (uint32_t r : order) rank_gains_[r] = Of({.rank_indices = {r}, .aspects = kEverything, .owners = {}});
}

}  // namespace lockstep::analysis
