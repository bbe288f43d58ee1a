// Gains of fixes: one graph of the capture, replayed with parts of it made typical, and the split of the lost
// time.
//
// Measure() computes once what every verdict needs. After it, the getters are valid, and Of() answers further
// what-ifs. diagnosis.cc and causes.h decide on culprits and causes. Times are nanoseconds per step unless a
// name says otherwise. Uses GraphInput::threads inside; call it from one thread at a time. Its inputs must
// outlive it.
#ifndef LOCKSTEP_ANALYSIS_GAINS_GAINS_H_
#define LOCKSTEP_ANALYSIS_GAINS_GAINS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "analysis/compare/classes.h"
#include "analysis/compare/typical.h"
#include "analysis/gains/host_pace.h"
#include "analysis/prepare/stages.h"
#include "analysis/replay/attribution.h"
#include "analysis/replay/contention.h"
#include "analysis/replay/graph.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/schedule.h"

namespace lockstep::analysis {

// The split's charge to one rank, per step.
struct RankCost {
  double kernels = 0, host = 0, copies = 0, head = 0;
  double total() const { return kernels + host + copies + head; }
};

// Effects below this share of a step are never reported. Clocks of GPUs of one bin differ by about as much.
inline constexpr double kLeastShare = 0.005;
// In jobs of up to this many ranks, each rank's gain is replayed, even if its upper limit is small.
inline constexpr size_t kReplayedRanks = 64;

class Gains {
 public:
  explicit Gains(const GraphInput& input);
  // Not copyable, because the replay points into this object.
  Gains(const Gains&) = delete;
  Gains& operator=(const Gains&) = delete;

  // True if there is nothing to replay: no used step, or no unit.
  bool empty() const { return graph_.units.empty() || steps_ == 0; }
  void Measure();
  // Frees the memory of the replays. The next what-if takes it again.
  void Rest();

  // The time by which each step gets shorter with `fix`, by used step, as far as the hosts keep up
  // (host_pace.h). Call after Measure().
  std::vector<double> Of(const Fix& fix);
  std::vector<std::vector<double>> OfEach(std::span<const Fix> fixes);
  // The same for any timing: `change` turns the observed timing into the one to replay.
  std::vector<double> OfTiming(const std::function<void(Timing&)>& change);

  // The split's charge to these pieces, per step. A piece counts by the part of the way from typical to
  // observed on which its moment was critical.
  double LostTo(const Pieces& pieces) const;

  size_t steps() const { return steps_; }
  double step_ns() const { return step_ns_; }
  double ideal_step_ns() const {
    return ideal_step_ns_;
  }  // every unit at its class's median; kernels are slower beside the waiting that remains
  double lost_ns() const { return lost_ns_; }
  double straggler_free_step_ns() const {
    return straggler_free_step_ns_;
  }  // every rank like its peers, with its noise
  double transfer_free_step_ns() const { return transfer_free_step_ns_; }  // with transfers taking no time
  double ideal_transfer_free_step_ns() const { return ideal_transfer_free_step_ns_; }
  const std::vector<double>& step_durations() const { return step_durations_; }
  const std::vector<RankCost>& rank_costs() const { return rank_costs_; }  // by rank index
  const std::vector<double>& owner_costs() const { return owner_costs_; }  // of transfers, by owner
  // The cost of one rank's own units in one step, not per step: [rank index][step]. The sum over the steps is
  // rank_costs() times steps().
  const std::vector<std::vector<double>>& rank_step_costs() const { return rank_step_costs_; }
  // Nanoseconds of all steps together, by unit.
  const Attribution& split() const { return split_; }
  // The moments of the replay with every unit at its class's median.
  Moments ideal_moments() const { return {graph_, {ideal(), ideal(), 0}, ideal_times_.data(), 1}; }
  // The durations of that replay. Contention is the observed one.
  Durations ideal() const {
    Durations durations(graph_);
    durations.lag = ideal_.lag.data();
    durations.work = ideal_.work.data();
    return durations;
  }

  // By rank index and step: the gain of making that rank typical. Empty for a rank that was not replayed,
  // because it cannot gain kLeastShare of a step. In jobs of up to kReplayedRanks, every rank is replayed.
  // rank_gain_bounds() are the upper limits: a rank's excess on the critical path. The step is a convex
  // function of the units' durations, so its tangent bounds the gain.
  const std::vector<std::vector<double>>& rank_gains() const { return rank_gains_; }
  const std::vector<double>& rank_gain_bounds() const { return rank_gain_bounds_; }

  const Layout& layout() const { return layout_; }
  const Graph& graph() const { return graph_; }
  const Classes& classes() const { return classes_; }
  const TypicalValues& typical() const { return typical_; }

 private:
  enum Variant { kStragglerFree, kIdeal, kTransferFree, kIdealTransferFree, kVariants };

  // The state of one replaying thread. Its timing is the observed one between replays.
  struct Worker {
    Replay replay;
    ContentionPlacer contention;
    Timing timing;
    std::vector<uint32_t> touched;  // units that the last fix changed
    bool on_disk = false;           // the file has the observed timing; memory only what a fix changes in it
  };

  double PerStep(double total) const { return total / static_cast<double>(steps_); }
  unsigned Threads() const;
  Worker& WorkerOf(unsigned thread);
  void Observe(Worker& worker) const;
  void Restore(const Fix& fix, Worker& worker) const;
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
  std::optional<Schedule> schedule_;  // empty if there is nothing to replay
  std::vector<std::unique_ptr<Worker>> workers_;
  Timing ideal_;  // without contention, which is that of the graph
  Attribution split_;
  std::vector<double> ideal_times_;  // by node
  double step_ns_ = 0, ideal_step_ns_ = 0, lost_ns_ = 0, straggler_free_step_ns_ = 0,
         transfer_free_step_ns_ = 0, ideal_transfer_free_step_ns_ = 0;
  std::vector<double> step_durations_;
  HostPace host_pace_;
  std::vector<RankCost> rank_costs_;
  std::vector<double> owner_costs_;
  std::vector<std::vector<double>> rank_step_costs_;
  std::vector<std::vector<double>> rank_gains_;
  std::vector<double> rank_gain_bounds_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_GAINS_GAINS_H_
