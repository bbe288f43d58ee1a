// What the job would gain: one graph of the capture, replayed with parts of it made typical, and the split of the lost time.
//
// Measure() runs once what every verdict needs; after it the getters hold and Of() answers further what-ifs. Who is blamed for what
// is decided elsewhere (diagnosis.cc, causes.h). Times are nanoseconds per step unless a name says otherwise. One thread at a time:
// Of() replays in memory of its own. What it was made from must outlive it.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_GAINS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_GAINS_H_

#include <cstdint>
#include <vector>

#include "aggregator/analysis/attribution.h"
#include "aggregator/analysis/classes.h"
#include "aggregator/analysis/graph.h"
#include "aggregator/analysis/replay.h"
#include "aggregator/analysis/typical.h"

namespace lockstep::analysis {

// What the additive split charges to one rank, per step.
struct RankCost {
  double kernels = 0, host = 0, copies = 0, head = 0;
  double total() const { return kernels + host + copies + head; }
};

// What is made typical together: work of ranks, and transfers of groups and pairs.
struct Fix {
  std::vector<uint32_t> rank_indices;
  uint32_t aspects = kEverything;  // of those ranks
  std::vector<uint32_t> owners;    // into Classes::owners
};

class Gains {
 public:
  explicit Gains(const GraphInput& input);
  // The replay points into this object.
  Gains(const Gains&) = delete;
  Gains& operator=(const Gains&) = delete;

  // Nothing to replay: no used step, or nothing in it.
  bool empty() const { return graph_.units.empty() || steps_ == 0; }
  void Measure();

  // How much shorter each step gets with `fix`, by used step.
  std::vector<double> Of(const Fix& fix);

  size_t steps() const { return steps_; }
  double step_ns() const { return step_ns_; }
  double ideal_step_ns() const { return step_ns_ - lost_ns_; }  // every unit at its class's median
  double lost_ns() const { return lost_ns_; }
  double levelled_step_ns() const { return levelled_step_ns_; }            // every rank like its peers, noise kept
  double transfer_free_step_ns() const { return transfer_free_step_ns_; }  // with transfers taking no time
  const std::vector<double>& step_durations() const { return step_durations_; }
  const std::vector<RankCost>& rank_costs() const { return rank_costs_; }    // by rank index
  const std::vector<double>& owner_costs() const { return owner_costs_; }    // of transfers, by owner
  // By rank index and step: the gain of making that rank typical; no steps for a rank that was not replayed.
  const std::vector<std::vector<double>>& rank_gains() const { return rank_gains_; }

  const Graph& graph() const { return graph_; }
  const Classes& classes() const { return classes_; }
  const TypicalValues& typical() const { return typical_; }

 private:
  double PerStep(double total) const { return total / static_cast<double>(steps_); }
  Timing& FreshTiming();
  std::vector<double> Replayed(const Timing& timing);
  Attribution Split() const;
  void MeasureVariants();
  void MeasureRanks();
  void GatherCosts(const Attribution& split);

  const GraphInput& in_;
  size_t steps_;
  Graph graph_;
  Classes classes_;
  TypicalValues typical_;
  Replay replay_;
  Timing ideal_, scratch_;
  double step_ns_ = 0, lost_ns_ = 0, levelled_step_ns_ = 0, transfer_free_step_ns_ = 0;
  std::vector<double> step_durations_;
  std::vector<RankCost> rank_costs_;
  std::vector<double> owner_costs_;
  std::vector<std::vector<double>> rank_gains_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_GAINS_H_
