// The diagnosis of a capture: the ranks that delay the others, the causes, and the gains of fixing them.
//
// The verdict comes from replay. A gain is the time by which the step gets shorter if one rank (or its link)
// is made like its peers. The split of the lost time is additive. Definitions and reasons:
// docs/analysis/lost-time.md.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_DIAGNOSIS_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_DIAGNOSIS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/explain/cause_names.h"
#include "analysis/explain/judged.h"
#include "analysis/gains/delay_cost.h"
#include "analysis/gains/fixes.h"
#include "analysis/prepare/stages.h"
#include "analysis/prepare/stats.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

enum class Verdict : uint8_t { kUndecided, kLikely, kSure };

// If less than this share of the communication is matched, the cause of a delay may be invisible, so every
// verdict is undecided.
inline constexpr double kMatchedForVerdict = 0.5;

struct Finding {
  CulpritKind kind = CulpritKind::kRank;
  std::vector<uint32_t> rank_indices;  // the culprits, or, if not identified, the ranks of which one is the
                                       // culprit; empty: no rank (data)
  bool identified = true;
  Cause cause = Cause::kUnknown;
  Fix fix;             // the change that makes it typical
  double lost_ns = 0;  // per step: its share of the additive split
  double gain_ns = 0;  // per step: the step gets shorter by this if it alone is made typical
  Interval95 gain_interval{0, 0};
  std::vector<double> gain_per_step;
  // The time by which it still lengthens each step after all others are fixed. Equal culprits that delay all
  // ranks together gain nothing alone. Verdicts use the larger of both gains.
  std::vector<double> marginal_gain;
  bool hidden = false;  // found only after the others were fixed
  Verdict verdict = Verdict::kUndecided;
  std::optional<double> confidence;  // docs/causes.md, "Verdicts"
  // First and last step with a cost, by name. The last one is null if the cost continues to the end.
  std::optional<int64_t> since_step, until_step;
  double steps_affected = 1;  // share of the steps
  // By step: 1 if the finding costs time in it. Empty: not known. Intervals of gains keep their number.
  std::vector<uint8_t> is_affected;
  // Its own work beyond its peers', median per step: in the steps before since_step, if there are any, and in
  // the affected ones.
  std::optional<double> before_ns, since_ns;
  uint32_t delayed_ranks = 0;
  std::vector<std::string> evidence;
  std::optional<Nanos> late;  // its lateness in each step, if that is its cost
  bool leaves_host = false;   // only transfers that leave the host are slow
};

struct Diagnosis {
  double step_ns = 0, ideal_step_ns = 0, lost_ns = 0;  // per step
  // False if the ideal step is longer than the observed one, beyond chance. Medians then stand for no real
  // step, because ranks take turns in what they do. All values measured from the ideal step are then
  // meaningless: lost_ns and its parts, rank_step_lost, waiting, critical communication.
  bool has_ideal = true;
  Interval95 ratio_interval{1, 1};
  std::optional<double> noise_floor_ns;
  double noise_ns = 0, unlisted_ns = 0, unexplained_ns = 0;
  std::vector<Finding> findings;  // largest lost_ns first; only findings above the noise floor
  std::vector<std::vector<double>>
      rank_step_lost;  // [rank index][step]: part of lost_ns that the rank's own work cost
  std::vector<double>
      rank_gains;  // by rank index, per step: gain of making that rank typical; NaN: not replayed
  std::vector<double> rank_gain_bounds;  // by rank index, per step: upper limit of that gain
  std::vector<double> step_durations;
  std::vector<std::string> not_the_cause;
  std::vector<NotJudged> not_judged;
  std::vector<FixSet> fixes;  // sets of findings, largest gain first
  Layout layout;
  Waiting waiting;
  double critical_communication_ns =
      0;  // part of lost_ns that transfers cost, which faster links could recover
  uint64_t edges = 0, cut_edges = 0;
  double transfer_free_step_ns = 0;        // with transfers that take no time: the cost of dependencies alone
  double ideal_transfer_free_step_ns = 0;  // the same with every unit at its class's median
  double ideal_compute_ns = 0;  // per step: kernel time of the rank that computes most, in the ideal step
};

Diagnosis Diagnose(const GraphInput& input);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_DIAGNOSIS_H_
