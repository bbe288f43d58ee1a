#include "analysis/gains/gains.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/parallel.h"

namespace lockstep::analysis {
namespace {

using capture::DiskRows;
using capture::kNone;

// In a large job, this many ranks without a notable gain are replayed too, spread evenly. They show what
// ranks gain and lose by chance.
constexpr size_t kSampledRanks = 16;
// Each replaying thread holds the times and durations of every unit. All threads together stay within this.
constexpr size_t kReplayBytes = size_t{2} << 30;
// Timing, moments, and the kernels beside collectives.
constexpr size_t kBytesPerUnit = 5 * sizeof(double) + sizeof(uint32_t);
// Replays of the split. Those of a large job take longer, and the split's sum is exact with any number.
constexpr size_t kLargeGraph = 2'000'000;
constexpr int kSplitReplays = 96, kSplitReplaysOfLarge = 32;
// Number of replays until kernels and the collectives beside them agree, and the share of a step that counts
// as agreement.
constexpr int kContentionRounds = 5;
constexpr double kSettled = 1e-4;

}  // namespace

Gains::Gains(const GraphInput& input)
    : in_(input),
      steps_(input.steps.count()),
      layout_(InferLayout(input.capture, input.matches, input.times, input.steps)),
      graph_(BuildGraph(input)),
      classes_(Classify(graph_, input, &layout_)),
      typical_(graph_, classes_, steps_ >= kLeastSteps) {
  const size_t fit =
      std::max<size_t>(1, kReplayBytes / (kBytesPerUnit * std::max<size_t>(1, graph_.units.size())));
  workers_.resize(std::min<size_t>(ThreadCount(input.threads), fit));
  if (empty()) return;
  schedule_.emplace(graph_, steps_, FirstEnd(graph_, input));
  if (in_.disk != nullptr) {
    in_.disk->Take(classes_.units);
    schedule_->MoveTo(*in_.disk);
  }
  Worker& worker = WorkerOf(0);
  worker.replay.Rerun(worker.timing, {});
  step_durations_ = worker.replay.StepDurations();
  step_ns_ = worker.replay.StepTime();
  host_pace_ = HostPace(graph_, worker.replay);
  rank_gain_bounds_ = Bounds(worker.replay.CriticalPath());
  Rest();  // the split needs much memory and no worker
}

unsigned Gains::Threads() const { return static_cast<unsigned>(workers_.size()); }

// Created on first use, by the thread that uses it.
Gains::Worker& Gains::WorkerOf(unsigned thread) {
  std::unique_ptr<Worker>& worker = workers_[thread];
  if (worker) return *worker;
  worker.reset(new Worker{Replay(*schedule_), ContentionPlacer(*schedule_), ObservedTiming(graph_), {}});
  if (in_.disk != nullptr) {
    const Timing& timing = worker->timing;
    worker->on_disk =
        in_.disk->Take(timing.lag) && in_.disk->Take(timing.work) && in_.disk->Take(timing.contention);
  }
  return *worker;
}

void Gains::Rest() {
  for (std::unique_ptr<Worker>& worker : workers_) worker.reset();
}

void Gains::Measure() {
  if (empty()) return;
  ideal_ = typical_.Ideal();
  std::vector<double>().swap(ideal_.contention);
  if (in_.disk != nullptr) {
    in_.disk->Take(ideal_.lag);
    in_.disk->Take(ideal_.work);
  }
  const std::vector<uint32_t> ranks = RanksToReplay();
  rank_gains_.resize(in_.capture.ranks.size());
  // The split takes longest, so it goes first.
  ParallelFor(Threads(), 1 + kVariants + ranks.size(), [&](unsigned thread, size_t piece) {
    if (piece == 0) {
      const AttributionLimits limits{.replays = graph_.units.size() > kLargeGraph ? kSplitReplaysOfLarge
                                                                                  : kSplitReplays};
      split_ = Attribute(*schedule_, ideal(), limits, [this](std::vector<double> times) {
        ideal_times_ = std::move(times);
        if (in_.disk != nullptr) in_.disk->Take(ideal_times_);
      });
      if (in_.disk != nullptr) {
        in_.disk->Take(split_.cost);
        in_.disk->Take(split_.weight);
      }
    } else if (piece <= kVariants) {
      MeasureVariant(static_cast<Variant>(piece - 1), WorkerOf(thread));
    } else {
      const uint32_t r = ranks[piece - 1 - kVariants];
      rank_gains_[r] = Gain(WorkerOf(thread), {.rank_indices = {r}, .owners = {}});
    }
  });
  Rest();
  GatherCosts();
}

// All ranks of a small job. Of a large one, those whose gain may be notable, and a sample of the others.
std::vector<uint32_t> Gains::RanksToReplay() const {
  const size_t count = in_.capture.ranks.size();
  std::vector<uint32_t> ranks;
  const size_t stride = std::max<size_t>(1, count / kSampledRanks);
  for (uint32_t r = 0; r < count; ++r) {
    const bool sampled = count <= kReplayedRanks || r % stride == stride / 2;
    if (sampled || rank_gain_bounds_[r] >= kLeastShare * step_ns_) ranks.push_back(r);
  }
  return ranks;
}

void Gains::Observe(Worker& worker) const {
  const auto observe = [&worker](std::vector<double>& values, const std::vector<double>& observed) {
    if (!worker.on_disk) {
      values = observed;  // into the memory that it has
      return;
    }
    DiskRows::Forget(values, 0, values.size());
    // Only a change takes memory.
    for (size_t u = 0; u < values.size(); ++u) {
      if (values[u] != observed[u]) values[u] = observed[u];
    }
  };
  observe(worker.timing.lag, graph_.lag);
  observe(worker.timing.work, graph_.work);
  observe(worker.timing.contention, graph_.contention);
}

// Calls use(unit) for every unit that the fix may change, for some of them twice.
template <typename Use>
void Gains::ForEachUnit(const Fix& fix, const Use& use) const {
  for (uint32_t r : fix.rank_indices) {
    for (uint32_t u = graph_.rank_begin[r]; u < graph_.rank_begin[r + 1]; ++u) use(u);
  }
  typical_.ForEachTransfer(fix.owners, use);
  for (const Piece& p : fix.pieces) use(UnitOf(p.node));
}

void Gains::Restore(const Fix& fix, Worker& worker) const {
  Timing& timing = worker.timing;
  ForEachUnit(fix, [&](uint32_t u) {
    timing.lag[u] = graph_.lag[u];
    timing.work[u] = graph_.work[u];
  });
  if (!worker.on_disk) return;
  for (uint32_t r : fix.rank_indices) {
    DiskRows::Forget(timing.lag, graph_.rank_begin[r], graph_.rank_begin[r + 1]);
    DiskRows::Forget(timing.work, graph_.rank_begin[r], graph_.rank_begin[r + 1]);
  }
}

// Replays the worker's timing, which contains `fix`. Units that the previous fix changed have their observed
// values again.
void Gains::ReplayFix(Worker& worker, const Fix& fix) const {
  const size_t before = worker.touched.size();
  ForEachUnit(fix, [&](uint32_t u) { worker.touched.push_back(u); });
  worker.replay.Rerun(worker.timing, worker.touched);
  worker.touched.erase(worker.touched.begin(), worker.touched.begin() + static_cast<std::ptrdiff_t>(before));
  SettleContention(worker, Sweeps::kChanges);
}

// Collectives that wait less slow the kernels beside them less, which changes the waiting again. Repeats
// until the change is small. Afterwards, the worker's timing is the same as before.
void Gains::SettleContention(Worker& worker, Sweeps sweeps) const {
  if (graph_.occupying.empty()) return;
  double before = worker.replay.StepTime();
  std::vector<uint32_t> placed;
  for (int round = 0; round < kContentionRounds; ++round) {
    const size_t known = placed.size();
    worker.contention.Place(worker.replay, worker.timing, placed);
    if (placed.size() == known) break;
    if (sweeps == Sweeps::kWhole) {
      worker.replay.Run(worker.timing);
    } else {
      worker.replay.Rerun(worker.timing, std::span(placed).subspan(known));
    }
    const double now = worker.replay.StepTime();
    if (std::fabs(now - before) < kSettled * step_ns_) break;
    before = now;
  }
  for (uint32_t u : placed) worker.timing.contention[u] = graph_.contention[u];
  if (sweeps == Sweeps::kChanges) worker.touched.insert(worker.touched.end(), placed.begin(), placed.end());
}

std::vector<double> Gains::GainNow(const Replay& replay) const {
  std::vector<double> gain = replay.StepDurations();
  for (size_t k = 0; k < gain.size(); ++k) gain[k] = step_durations_[k] - gain[k];
  host_pace_.Limit(replay, gain);
  return gain;
}

std::vector<double> Gains::Gain(Worker& worker, const Fix& fix) const {
  typical_.MakeTypical(fix, worker.timing);
  ReplayFix(worker, fix);
  Restore(fix, worker);
  return GainNow(worker.replay);
}

std::vector<double> Gains::Of(const Fix& fix) {
  if (empty()) return {};
  return Gain(WorkerOf(0), fix);
}

std::vector<std::vector<double>> Gains::OfEach(std::span<const Fix> fixes) {
  std::vector<std::vector<double>> gains(fixes.size());
  if (empty()) return gains;
  ParallelFor(Threads(), fixes.size(),
              [&](unsigned thread, size_t i) { gains[i] = Gain(WorkerOf(thread), fixes[i]); });
  return gains;
}

double Gains::LostTo(const Pieces& pieces) const {
  double sum = 0;
  for (const Piece& p : pieces) sum += split_.weight[p.node] * p.ns;
  return steps_ == 0 ? 0 : PerStep(sum);
}

std::vector<double> Gains::OfTiming(const std::function<void(Timing&)>& change) {
  if (empty()) return {};
  Worker& worker = WorkerOf(0);
  change(worker.timing);
  worker.replay.Run(worker.timing);
  SettleContention(worker, Sweeps::kWhole);
  Observe(worker);
  return GainNow(worker.replay);
}

std::vector<double> Gains::Bounds(const std::vector<PathNode>& path) const {
  std::vector<double> bounds(in_.capture.ranks.size(), 0);
  std::vector<uint8_t> done(bounds.size(), 0);
  // Only ranks on the path are made typical, each compared with its own peers.
  Timing typical = ObservedTiming(graph_);
  for (const PathNode& node : path) {
    const uint32_t u = UnitOf(node.node);
    const uint32_t r = graph_.units[u].rank_index;
    if (graph_.units[u].kind == UnitKind::kTransfer && node.node % 2 != 0) continue;
    if (done[r] == 0) typical_.MakeTypical({.rank_indices = {r}, .owners = {}}, typical);
    done[r] = 1;
    bounds[r] += PerStep(node.weight * (node.node % 2 == 0 ? graph_.lag[u] - typical.lag[u]
                                                           : graph_.work[u] - typical.work[u]));
  }
  return bounds;
}

void Gains::MeasureVariant(Variant variant, Worker& worker) {
  if (variant == kStragglerFree) typical_.Level(worker.timing);
  if (variant == kIdealTransferFree || variant == kIdeal) {
    worker.timing.lag = ideal_.lag;
    worker.timing.work = ideal_.work;
  }
  if (variant == kStragglerFree || variant == kIdeal) {
    worker.replay.Run(worker.timing);
    SettleContention(worker, Sweeps::kWhole);
    (variant == kStragglerFree ? straggler_free_step_ns_ : ideal_step_ns_) = worker.replay.StepTime();
  } else {
    // Units before the first used step keep their work, because steps count from its real begin.
    for (uint32_t u = 0; u < graph_.units.size(); ++u) {
      if (graph_.units[u].kind == UnitKind::kTransfer && graph_.units[u].step >= 0) worker.timing.work[u] = 0;
    }
    worker.replay.Run(worker.timing);
    (variant == kTransferFree ? transfer_free_step_ns_ : ideal_transfer_free_step_ns_) =
        worker.replay.StepTime();
  }
  Observe(worker);
}

// Sums the additive split per rank and kind of unit, per rank and step, and per group for transfers.
void Gains::GatherCosts() {
  const size_t ranks = in_.capture.ranks.size();
  lost_ns_ = step_ns_ - ideal_step_ns_;
  rank_costs_.resize(ranks);
  rank_step_costs_.assign(ranks, std::vector<double>(steps_, 0));
  owner_costs_.assign(classes_.owners.size(), 0);
  for (uint32_t u = 0; u < graph_.units.size(); ++u) {
    if (split_.cost[u] == 0) continue;
    const Unit& unit = graph_.units[u];
    RankCost& rank = rank_costs_[unit.rank_index];
    // The idle time of a device is charged to its host.
    const double idle =
        IsHostUnit(unit.kind) ? 0 : split_.weight[StartOf(u)] * (graph_.lag[u] - ideal_.lag[u]);
    const double cost = PerStep(split_.cost[u] - idle);
    rank.host += PerStep(idle);
    if (unit.kind == UnitKind::kTransfer) {
      if (unit.instance != kNone) owner_costs_[classes_.owner_of_instance[unit.instance]] += cost;
      rank_step_costs_[unit.rank_index][static_cast<size_t>(std::max(0, unit.step))] += idle;
      continue;
    }
    // Only units of used steps differ from typical, apart from a rank's lateness from before the window.
    rank_step_costs_[unit.rank_index][static_cast<size_t>(std::max(0, unit.step))] += split_.cost[u];
    if (u == typical_.HeadOf(unit.rank_index)) {
      rank.head += cost;
    } else if (unit.kind == UnitKind::kKernel) {
      rank.kernels += cost;
    } else if (unit.kind == UnitKind::kCopy) {
      rank.copies += cost;
    } else {
      rank.host += cost;
    }
  }
}

}  // namespace lockstep::analysis
