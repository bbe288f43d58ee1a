// What the job would gain: one graph of the capture, replayed with parts of it made typical, and the split of
// the lost time.
//
// Measure() runs once what every verdict needs; after it the getters hold and Of() answers further what-ifs.
// Who is blamed for what is decided elsewhere (diagnosis.cc, causes.h). Times are nanoseconds per step unless
// a name says otherwise. Uses GraphInput::threads inside; called from one thread at a time. What it was made
// from must outlive it.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_GAINS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_GAINS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "analysis/compare/classes.h"
#include "analysis/compare/typical.h"
#include "analysis/prepare/stages.h"
#include "analysis/replay/attribution.h"
#include "analysis/replay/contention.h"
#include "analysis/replay/graph.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/schedule.h"

namespace lockstep::analysis {

// What the additive split charges to one rank, per step.
struct RankCost {
  double kernels = 0, host = 0, copies = 0, head = 0;
  double total() const { return kernels + host + copies + head; }
};

// Effects below this part of a step are never named: clocks of GPUs of one bin differ by about as much.
inline constexpr double kLeastShare = 0.005;
// Up to this many ranks each one's gain is replayed, whatever it can be at most.
inline constexpr size_t kReplayedRanks = 64;

class Gains {
 public:
  explicit Gains(const GraphInput& input);
  // The replay points into this object.
  Gains(const Gains&) = delete;
  Gains& operator=(const Gains&) = delete;

  // Nothing to replay: no used step, or nothing in it.
  bool empty() const { return graph_.units.empty() || steps_ == 0; }
  void Measure();

  // How much shorter each step gets with `fix`, by used step. After Measure().
  std::vector<double> Of(const Fix& fix);
  std::vector<std::vector<double>> OfEach(std::span<const Fix> fixes);
  // The same for any timing: `change` makes of the observed one what is to be replayed.
  std::vector<double> OfTiming(const std::function<void(Timing&)>& change);

  // What the split charges to these pieces, per step: each as much of it as its moment was critical on the
  // way from typical to observed.
  double LostTo(const Pieces& pieces) const;

  size_t steps() const { return steps_; }
  double step_ns() const { return step_ns_; }
  double ideal_step_ns() const {
    return ideal_step_ns_;
  }  // every unit at its class's median, kernels slower beside what still waits
  double lost_ns() const { return lost_ns_; }
  double levelled_step_ns() const { return levelled_step_ns_; }  // every rank like its peers, noise kept
  double transfer_free_step_ns() const { return transfer_free_step_ns_; }  // with transfers taking no time
  double ideal_transfer_free_step_ns() const { return ideal_transfer_free_step_ns_; }
  const std::vector<double>& step_durations() const { return step_durations_; }
  const std::vector<RankCost>& rank_costs() const { return rank_costs_; }  // by rank index
  const std::vector<double>& owner_costs() const { return owner_costs_; }  // of transfers, by owner
  // Of one rank's own units in one step, not per step: [rank index][step]. Sums over the steps to
  // rank_costs() times steps().
  const std::vector<std::vector<double>>& rank_step_costs() const { return rank_step_costs_; }
  // Nanoseconds of all steps together, by unit.
  const Attribution& split() const { return split_; }
  // Every moment of the replay with every unit at its class's median, by NodeRef.
  const std::vector<double>& ideal_moments() const { return ideal_moments_; }
  const Timing& ideal() const { return ideal_; }

  // By rank index and step: the gain of making that rank typical. No steps where it was not replayed, because
  // it could not gain kLeastShare of a step; rank_gain_bounds() says what at most: what the critical path
  // holds of its excess, since the step is a convex function of what units take and its tangent bounds it.
  // Every rank of up to kReplayedRanks is replayed.
  const std::vector<std::vector<double>>& rank_gains() const { return rank_gains_; }
  const std::vector<double>& rank_gain_bounds() const { return rank_gain_bounds_; }

  const Layout& layout() const { return layout_; }
  const Graph& graph() const { return graph_; }
  const Classes& classes() const { return classes_; }
  const TypicalValues& typical() const { return typical_; }

 private:
  enum Variant { kLevelled, kIdeal, kTransferFree, kIdealTransferFree, kVariants };

  // What one thread replays in. Its timing is the observed one between replays.
  struct Worker {
    Replay replay;
    ContentionPlacer contention;
    Timing timing;
    std::vector<uint32_t> touched;  // units that the last fix changed
  };

  double PerStep(double total) const { return total / static_cast<double>(steps_); }
  unsigned Threads() const;
  Worker& WorkerOf(unsigned thread);
  void Restore(const Fix& fix, Timing& timing) const;
  template <typename Use>
  void ForEachUnit(const Fix& fix, const Use& use) const;
  void ReplayFix(Worker& worker, const Fix& fix) const;
  std::vector<double> GainNow(const Replay& replay) const;
  enum class Sweeps : uint8_t { kWhole, kChanges };
  void SettleContention(Worker& worker, Sweeps sweeps) const;
  std::vector<double> Gain(Worker& worker, const Fix& fix) const;
  std::vector<double> Bounds(const std::vector<PathNode>& path) const;
  std::vector<uint32_t> RanksToReplay() const;
  void MeasureVariant(Variant variant, Worker& worker);
  void GatherCosts();

  const GraphInput& in_;
  size_t steps_;
  Layout layout_;
  Graph graph_;
  Classes classes_;
  TypicalValues typical_;
  std::optional<Program> program_;  // where there is anything to replay
  std::vector<std::unique_ptr<Worker>> workers_;
  Timing ideal_;
  Attribution split_;
  std::vector<double> ideal_moments_;
  double step_ns_ = 0, ideal_step_ns_ = 0, lost_ns_ = 0, levelled_step_ns_ = 0, transfer_free_step_ns_ = 0,
         ideal_transfer_free_step_ns_ = 0;
  std::vector<double> step_durations_;
  std::vector<RankCost> rank_costs_;
  std::vector<double> owner_costs_;
  std::vector<std::vector<double>> rank_step_costs_;
  std::vector<std::vector<double>> rank_gains_;
  std::vector<double> rank_gain_bounds_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_GAINS_H_
