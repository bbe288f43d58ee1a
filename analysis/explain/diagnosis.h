// Who holds the others back, why, and what fixing it would gain.
//
// The verdict on a capture, from replay: gains are what the step would lose in length with one rank (or its
// link) made like its peers; the split of the lost time is additive. Definitions and reasons:
// docs/analysis.md.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_DIAGNOSIS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_DIAGNOSIS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/explain/cause_names.h"
#include "analysis/gains/delay_cost.h"
#include "analysis/gains/fixes.h"
#include "analysis/prepare/stages.h"
#include "analysis/prepare/stats.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

enum class Verdict : uint8_t { kUndecided, kLikely, kSure };

// With less of the communication matched than this, what holds the ranks back may be invisible: nothing is
// decided.
inline constexpr double kMatchedForVerdict = 0.5;

struct Finding {
  CulpritKind kind = CulpritKind::kRank;
  std::vector<uint32_t>
      rank_indices;  // whose they are, or, when not told apart, among whom it is one; empty: nobody's (data)
  bool told_apart = true;
  Cause cause = Cause::kUnknown;
  Fix fix;             // what is made typical when it is fixed
  double lost_ns = 0;  // per step: its share of the additive split
  double gain_ns = 0;  // per step: shorter when it alone is made typical
  Interval95 gain_interval{0, 0};
  std::vector<double> gain_per_step;
  // By how much it still lengthens each step once all others are fixed: of equals that hold everybody back
  // together none gains anything alone. Verdicts go by the larger of the two.
  std::vector<double> gain_beside_others;
  bool hidden = false;  // found only once the others were fixed
  Verdict verdict = Verdict::kUndecided;
  std::optional<double> confidence;  // docs/causes.md, "Verdicts"
  // First and last step in which it cost, by name; the latter null where it did up to the last one.
  std::optional<int64_t> since_step, until_step;
  double steps_affected = 1;  // part of the steps
  // Its own work beyond its peers', median per step: in the steps before since_step, where there are such,
  // and in the affected ones.
  std::optional<double> before_ns, since_ns;
  uint32_t delayed_ranks = 0;
  std::vector<std::string> evidence;
  std::optional<Nanos> late;  // how late it comes into each step, where that is what it costs
};

struct Diagnosis {
  double step_ns = 0, ideal_step_ns = 0, lost_ns = 0;  // per step
  // Is the ideal step no longer than the observed one, beyond chance? Else medians stand for no step (ranks
  // take turns in what they do), and nothing that is measured from the ideal step means anything: lost_ns and
  // its parts, rank_step_lost, waiting, critical communication.
  bool has_ideal = true;
  Interval95 ratio_interval{1, 1};
  std::optional<double> noise_floor_ns;
  double noise_ns = 0, unlisted_ns = 0, unexplained_ns = 0;
  std::vector<Finding> findings;  // by lost_ns, largest first; only what is above the noise floor
  std::vector<std::vector<double>>
      rank_step_lost;  // [rank index][step]: of lost_ns, what that rank's own work cost
  std::vector<double>
      rank_gains;  // by rank index, per step: gain of making that rank typical; NaN where not replayed,
  std::vector<double> rank_gain_bounds;  // because it is at most this
  std::vector<double> step_durations;
  std::vector<std::string> not_the_cause;
  std::vector<FixSet> fixes;  // of findings, largest gain first
  Layout layout;
  Waiting waiting;
  double critical_communication_ns =
      0;  // of lost_ns, what transfers cost: all that faster links could buy of it
  uint64_t edges = 0, cut_edges = 0;
  double transfer_free_step_ns = 0;        // with transfers taking no time: what dependencies alone cost
  double ideal_transfer_free_step_ns = 0;  // the same with every unit at its class's median
  double ideal_compute_ns = 0;  // per step: what the kernels of the rank that computes most take there
};

Diagnosis Diagnose(const GraphInput& input);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_DIAGNOSIS_H_
