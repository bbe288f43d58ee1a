#include "analysis/explain/explain.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "absl/strings/str_format.h"
#include "analysis/compare/group_effects.h"
#include "analysis/compare/imbalance.h"
#include "analysis/explain/causes.h"
#include "analysis/explain/chance.h"
#include "analysis/explain/host_merge.h"
#include "analysis/explain/link_causes.h"
#include "analysis/explain/lone_links.h"
#include "analysis/explain/stops.h"
#include "analysis/prepare/stats.h"

namespace lockstep::analysis {
namespace {

// An excess below this share of a step is not examined.
constexpr double kLeastOfStep = 0.003;
// A rank's copies are slow if they take this many times as long as its peers'.
constexpr double kSlowCopies = 1.2;
// A rank with more tokens exceeds its peers in grouped products by this many times as much as in other
// kernels.
constexpr double kRoutedTimes = 2.0;
// With fewer ranks, half of them may be slow, which a permutation would take for chance.
constexpr size_t kLeastForPermutation = 6;

class Explainer {
 public:
  Explainer(const GraphInput& input, const Gains& gains, const Layout& layout)
      : in_(input),
        gains_(gains),
        layout_(layout),
        excess_(input, gains.graph(), gains.classes(), gains.typical(), layout.stage_of),
        kinds_(input.capture),
        rules_(input, gains, excess_, kinds_),
        steps_(input.steps.count()),
        ranks_(static_cast<uint32_t>(input.capture.ranks.size())) {}

  Explanations Run() {
    FindCommon();
    FindPauses();
    FindUnevenData();
    MeasureKernels();
    FindStages();
    FindRanksWithSlowKernels();
    FindRanksWithSlowHosts();
    FindRanksWithSlowCopies();
    out_.links = FindSlowLinks(in_, gains_.graph(), gains_.classes(), excess_);
    std::vector<SlowLink> alone = FindSlowLoneGroups(in_, gains_.graph(), gains_.classes(), excess_);
    std::move(alone.begin(), alone.end(), std::back_inserter(out_.links.slow));
    std::vector<Explanation> links = ExplainLinks(in_, gains_.classes(), out_.links);
    std::move(links.begin(), links.end(), std::back_inserter(out_.list));
    out_.not_judged =
        FindNotJudged(in_, gains_.graph(), gains_.classes(), excess_, layout_, out_.links, kinds_);
    return std::move(out_);
  }

 private:
  double LeastNs() const { return kLeastOfStep * gains_.step_ns(); }
  int64_t StepName(size_t step) const { return in_.steps.names[step]; }
  int32_t RankNumber(uint32_t r) const { return in_.capture.ranks[r].rank.value(); }
  std::vector<uint32_t> AllRanks() const {
    std::vector<uint32_t> all(ranks_);
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }

  // ---- effects on all ranks

  void FindCommon() {
    const std::vector<double>& common = excess_.common();
    if (common.empty()) return;
    Explanation e{.kind = CulpritKind::kJob,
                  .cause = Cause::kCommon,
                  .rank_indices = AllRanks(),
                  .pieces = excess_.CommonPieces()};
    const auto slow = std::find_if(common.begin(), common.end(), [](double f) { return f > 0; });
    e.excess_ns = SumPerStep(e.pieces, steps_) / ranks_;
    e.evidence.push_back(
        absl::StrFormat("kernels of all ranks take %+.1f%% from step %d on; no rank differs from the others",
                        100 * *slow, StepName(static_cast<size_t>(slow - common.begin()))));
    out_.list.push_back(std::move(e));
  }

  void FindPauses() {
    Stops stops = FindStops(in_, gains_.graph(), excess_);
    pauses_ = std::move(stops.of_rank);
    std::move(stops.shared.begin(), stops.shared.end(), std::back_inserter(out_.list));
  }

  // ---- uneven data

  void FindUnevenData() {
    SequenceImbalance sequence =
        FindSequenceImbalance(in_, gains_.graph(), gains_.classes(), gains_.typical(), kinds_);
    out_.sequence_spread = sequence.spread;
    if (sequence.found) {
      Explanation e{.kind = CulpritKind::kData,
                    .cause = Cause::kSequenceImbalance,
                    .rank_indices = {},
                    .pieces = std::move(sequence.pieces)};
      e.rule_share = sequence.shared;
      double beyond = 0;
      for (const Piece& p : e.pieces) beyond += std::max(0.0, p.ns);
      e.excess_ns = beyond / static_cast<double>(steps_) / ranks_;
      e.evidence.push_back(
          absl::StrFormat("attention varies by %.0f%% from microbatch to microbatch, matrix products by "
                          "%.1f%%; %.0f%% of it is shared by "
                          "the kernels of one microbatch, %.0f%% stays with a rank",
                          100 * sequence.spread, 100 * sequence.others_spread,
                          100 * std::min(1.0, sequence.shared), 100 * sequence.rank_share));
      out_.list.push_back(std::move(e));
    }
    ExpertImbalance experts = FindExpertImbalance(in_, gains_.graph(), kinds_);
    if (!experts.found || experts.rank_indices.empty()) return;
    // A slow GPU also slows its other kernels.
    const KernelRatios k = rules_.Kernels(experts.rank_indices);
    const double routed = k.Of(KernelKind::kGrouped).ratio() - 1,
                 other = k.Of(KernelKind::kMatrix).ratio() - 1;
    const bool follows = experts.bytes_correlation > kFollowsBytes;
    if (!follows && (routed <= 0 || routed < kRoutedTimes * std::max(0.0, other))) return;
    if (other > 0.5 * experts.spread && !follows) return;
    Explanation e{.kind = CulpritKind::kData,
                  .cause = Cause::kExpertImbalance,
                  .rank_indices = experts.rank_indices,
                  .pieces = std::move(experts.pieces)};
    for (const Piece& p : e.pieces)
      e.excess_ns += std::max(0.0, p.ns) / static_cast<double>(steps_) /
                     static_cast<double>(experts.rank_indices.size());
    std::string evidence =
        absl::StrFormat("experts' products take up to %.2fx the mean of all ranks", experts.busiest);
    if (experts.are_grouped)
      absl::StrAppendFormat(&evidence, ", other matrix products there %.2fx", 1 + other);
    if (follows)
      absl::StrAppendFormat(&evidence, "; they follow the bytes received (r = %.2f)",
                            experts.bytes_correlation);
    e.evidence.push_back(std::move(evidence));
    routed_ns_.assign(ranks_, 0);
    for (const Piece& p : e.pieces)
      routed_ns_[gains_.graph().units[UnitOf(p.node)].rank_index] += p.ns / static_cast<double>(steps_);
    e.pieces.insert(e.pieces.end(), experts.exchanges.begin(), experts.exchanges.end());
    out_.list.push_back(std::move(e));
  }

  // ---- kernels

  void MeasureKernels() {
    kernel_excess_ = excess_.RelativeLevels(WorkKind::kKernels);
    for (uint32_t r = 0; r < ranks_; ++r) {
      if (kernel_excess_[r] + 1 <= out_.slowest_kernels) continue;
      out_.slowest_kernels = 1 + kernel_excess_[r];
      out_.slowest_rank = r;
    }
  }

  std::vector<std::vector<double>> KernelSteps(std::span<const uint32_t> ranks,
                                               std::span<const double> less) const {
    std::vector<std::vector<double>> rows;
    for (uint32_t r : ranks) {
      const ExcessSeries& s = excess_.OfRank(r, WorkKind::kKernels);
      rows.emplace_back();
      // The mean excess of the slow steps is not noise, so it is subtracted from them.
      double slow = 0, count = 0;
      for (size_t k = 0; k < steps_; ++k) {
        slow += s.regime.SlowAt(k) ? s.by_step[k] : 0;
        count += s.regime.SlowAt(k) ? 1 : 0;
      }
      for (size_t k = 0; k < steps_; ++k) {
        const double e = s.by_step[k] - (s.regime.SlowAt(k) ? slow / count : 0);
        rows.back().push_back(s.typical_ns > 0 ? e / s.typical_ns - less[r] : 0);
      }
    }
    return rows;
  }

  // Finds a stage of a pipeline with more work than the others.
  void FindStages() {
    group_effect_.assign(ranks_, 0);
    // If stages have one rank each, a slow stage is a slow rank.
    if (layout_.stages < 2 || ranks_ < 2 * layout_.stages) return;
    std::vector<RankWork> works;
    for (uint32_t r = 0; r < ranks_; ++r) {
      if (layout_.stage_of[r] >= 0)
        works.push_back(
            {r, static_cast<uint32_t>(layout_.stage_of[r]), KernelTimeByStep(gains_.graph(), in_, r)});
    }
    const StageEffect stage = FindStageEffect(works, layout_.stages);
    out_.stage_spread = stage.effect;
    if (!stage.found) {
      AddStageEpisode(works);
      return;
    }
    const std::vector<uint32_t> members = layout_.RanksOf(static_cast<int32_t>(stage.stage));
    Explanation e{.kind = CulpritKind::kStage, .cause = Cause::kStageImbalance, .rank_indices = members};
    e.pieces = ScaledKernels(gains_.graph(), members, 1 - stage.others_ns / stage.own_ns);
    e.excess_ns = stage.own_ns - stage.others_ns;
    e.rule_share = stage.variance_share;
    e.evidence.push_back(
        absl::StrFormat("%s computes %s per step, the stages' mean is %s (%+.1f%%); stages explain "
                        "%.0f%% of the differences between ranks, in %.0f%% of the steps it is the slowest",
                        StageName(stage.stage), LengthText(stage.own_ns), LengthText(stage.mean_ns),
                        100 * stage.effect, 100 * stage.variance_share, 100 * stage.steps_slowest));
    // The excess that all ranks of the stage share belongs to the stage.
    for (uint32_t r : members) group_effect_[r] = MedianOf(members);
    out_.list.push_back(std::move(e));
  }

  std::string StageName(uint32_t stage) const {
    if (stage == 0) return absl::StrFormat("the first of %d stages", layout_.stages);
    if (stage + 1 == layout_.stages) return absl::StrFormat("the last of %d stages", layout_.stages);
    return absl::StrFormat("stage %d (of 0 to %d)", stage, layout_.stages - 1);
  }

  void AddStageEpisode(std::span<const RankWork> works) {
    const std::optional<StageEpisode> found = FindStageEpisode(works, layout_.stages);
    if (!found) return;
    const std::vector<uint32_t> members = layout_.RanksOf(static_cast<int32_t>(found->stage));
    Explanation e{.kind = CulpritKind::kStage, .cause = Cause::kStageImbalance, .rank_indices = members};
    const double slow =
        static_cast<double>(std::count(found->regime.slow.begin(), found->regime.slow.end(), 1)) /
        static_cast<double>(steps_);
    e.pieces = ScaledKernels(gains_.graph(), members, found->effect / (1 + found->effect), found->regime);
    e.excess_ns = SumPerStep(e.pieces, steps_) / static_cast<double>(members.size());
    e.evidence.push_back(absl::StrFormat(
        "%s computes %+.1f%% beside the other stages in %.0f%% of the steps, all its ranks alike",
        StageName(found->stage), 100 * found->effect, 100 * slow));
    for (uint32_t r : members) group_effect_[r] = std::max(0.0, MedianOf(members));
    // Kernels of ranks that wait for the stage are slower in the same steps. If a common factor is above 0 in
    // exactly these steps, the stage explains it, so it is not reported as a second cause.
    const std::vector<double>& common = excess_.common();
    bool same_steps = !common.empty();
    for (size_t k = 0; k < common.size(); ++k)
      same_steps = same_steps && (common[k] > 0) == found->regime.SlowAt(k);
    if (same_steps)
      std::erase_if(out_.list, [](const Explanation& other) { return other.cause == Cause::kCommon; });
    out_.list.push_back(std::move(e));
  }

  double MedianOf(std::span<const uint32_t> ranks) const {
    std::vector<double> values;
    for (uint32_t r : ranks) values.push_back(kernel_excess_[r]);
    return Median(std::move(values));
  }

  void FindRanksWithSlowKernels() {
    std::vector<uint32_t> compared;
    std::vector<double> values;
    for (uint32_t r = 0; r < ranks_; ++r) {
      if (excess_.OfRank(r, WorkKind::kKernels).typical_ns <= 0 || excess_.PeersOf(r) < 2) continue;
      compared.push_back(r);
      values.push_back(kernel_excess_[r] - group_effect_[r]);
    }
    if (compared.empty()) return;
    const std::vector<std::vector<double>> rows = KernelSteps(compared, group_effect_);
    const double error = StepError(rows);
    Chance chance = ChanceAmong(values, error);
    if (compared.size() >= kLeastForPermutation)
      chance.floor = std::max(chance.floor, PermutationFloor(rows));
    double typical = 0;
    for (uint32_t r : compared) typical = std::max(typical, excess_.OfRank(r, WorkKind::kKernels).typical_ns);
    out_.kernel_floor_ns = chance.floor * typical;
    std::vector<Explanation> found;
    for (size_t i = 0; i < compared.size(); ++i) {
      const uint32_t r = compared[i];
      // Ranks of a larger stage are compared with each other: other stages may be below the middle.
      const double beyond = values[i] - (group_effect_[r] > 0 ? std::max(0.0, chance.middle) : chance.middle);
      const double own_typical = excess_.OfRank(r, WorkKind::kKernels).typical_ns;
      if (beyond <= chance.floor || beyond * own_typical < LeastNs() || MayBeSetClock(r)) continue;
      AddSlowKernels(r, beyond, chance, found);
    }
    MergeRanksOfHosts({in_, excess_, rules_, pauses_}, WorkKind::kKernels, found);
    std::move(found.begin(), found.end(), std::back_inserter(out_.list));
  }

  // Setting a clock changes the length of the work at that moment, on all ranks of its host. It affects one
  // step only.
  bool MayBeSetClock(uint32_t r) const {
    const uint32_t one[] = {r};
    if (!OnSetClock(in_, one)) return false;
    const Regime& regime = excess_.OfRank(r, WorkKind::kKernels).regime;
    return regime.split() && std::count(regime.slow.begin(), regime.slow.end(), 1) == 1;
  }

  void AddSlowKernels(uint32_t r, double beyond, const Chance& chance, std::vector<Explanation>& found) {
    const uint32_t one[] = {r};
    const double typical = excess_.OfRank(r, WorkKind::kKernels).typical_ns;
    CauseFinding cause = rules_.OfKernels(one, chance.sigma > 0 ? beyond / chance.sigma : 0);
    // The experts' additional time is counted as uneven data.
    if (!routed_ns_.empty() && routed_ns_[r] > 0.5 * beyond * typical) return;
    Explanation e{
        .cause = cause.cause, .rank_indices = {r}, .pieces = excess_.LevelPieces(one, WorkKind::kKernels)};
    if (group_effect_[r] > 0) {
      for (Piece& p : e.pieces) p.ns *= beyond / (beyond + group_effect_[r]);
    }
    e.excess_ns = beyond * typical;
    e.floor_ns = chance.floor * typical;
    e.rule_share = cause.rule_share;
    e.evidence = std::move(cause.evidence);
    NamePair(e);
    found.push_back(std::move(e));
  }

  // Two ranks that can only be compared with each other differ. Only their own past shows which of them is
  // slow.
  void NamePair(Explanation& e) const {
    const uint32_t r = e.rank_indices[0];
    if (excess_.PeersOf(r) != 2 || excess_.OfRank(r, WorkKind::kKernels).regime.split()) return;
    const uint32_t other = PeerOf(r);
    if (other == capture::kNone) return;
    e.kind = CulpritKind::kGroup;
    e.rank_indices.push_back(other);
    e.identified = false;
    e.evidence.push_back(
        absl::StrFormat("ranks %d and %d have only each other to be compared with: rank %d is the slower one",
                        RankNumber(r), RankNumber(other), RankNumber(r)));
  }

  uint32_t PeerOf(uint32_t r) const {
    const Classes& classes = gains_.classes();
    std::map<uint32_t, double> shared;
    for (uint32_t c : gains_.typical().CellsOfRank(r)) {
      if (classes.cells[c].kind != UnitKind::kKernel) continue;
      for (const int32_t step : {-1, 1}) {
        const int64_t near = int64_t{c} + step;
        if (near < 0 || near >= static_cast<int64_t>(classes.cells.size())) continue;
        const Cell& other = classes.cells[static_cast<size_t>(near)];
        if (other.class_index == classes.cells[c].class_index)
          shared[other.owner] += gains_.typical().stats()[c].own_work * classes.cells[c].count;
      }
    }
    uint32_t best = capture::kNone;
    for (const auto& [rank, time] : shared) {
      if (best == capture::kNone || time > shared[best]) best = rank;
    }
    return best;
  }

  // ---- hosts

  void FindRanksWithSlowHosts() {
    std::vector<Explanation> found;
    std::vector<double> lost(ranks_, 0);
    std::vector<Pieces> levels(ranks_);
    for (uint32_t r = 0; r < ranks_; ++r) {
      const uint32_t one[] = {r};
      levels[r] = excess_.LevelPieces(one, WorkKind::kHost);
      lost[r] = gains_.LostTo(levels[r]) + gains_.LostTo(pauses_[r]);
    }
    const double floor = ChanceAmong(lost, 0).floor;
    // Ranks of a host that each lose little may lose much together.
    std::map<uint32_t, double> of_host;
    for (uint32_t r = 0; r < ranks_; ++r) of_host[in_.capture.ranks[r].host] += std::max(0.0, lost[r]);
    for (uint32_t r = 0; r < ranks_; ++r) {
      // A rank for which no rank waits loses nothing, but may be as slow as the others of its host.
      const double beyond = SumPerStep(levels[r], steps_) + SumPerStep(pauses_[r], steps_);
      if (lost[r] <= 0 && beyond < LeastNs()) continue;
      const bool host_loses = of_host[in_.capture.ranks[r].host] >= LeastNs();
      if (!host_loses && beyond < LeastNs()) continue;
      Explanation e = HostExplanation(r, levels[r]);
      e.excess_ns = beyond;
      e.floor_ns = lost[r] > floor ? 0 : floor;
      if (e.excess_ns > 0) (host_loses ? found : out_.hidden).push_back(std::move(e));
    }
    MergeRanksOfHosts({in_, excess_, rules_, pauses_}, WorkKind::kHost, found);
    // A single rank must exceed the limit by itself.
    for (Explanation& e : found) {
      const bool alone = e.kind == CulpritKind::kRank && lost[e.rank_indices[0]] < LeastNs();
      (alone ? out_.hidden : out_.list).push_back(std::move(e));
    }
    std::stable_sort(out_.hidden.begin(), out_.hidden.end(),
                     [](const Explanation& x, const Explanation& y) { return x.excess_ns > y.excess_ns; });
  }

  Explanation HostExplanation(uint32_t r, const Pieces& level) const {
    CauseFinding cause = rules_.OfHost(r, level, pauses_[r]);
    Explanation e{.cause = cause.cause, .rank_indices = {r}, .pieces = level};
    e.pieces.insert(e.pieces.end(), pauses_[r].begin(), pauses_[r].end());
    e.rule_share = cause.rule_share;
    e.evidence = std::move(cause.evidence);
    e.late = cause.late;
    if (pauses_[r].empty()) NamePair(e);
    return e;
  }

  void FindRanksWithSlowCopies() {
    for (uint32_t r = 0; r < ranks_; ++r) {
      const ExcessSeries& series = excess_.OfRank(r, WorkKind::kCopies);
      if (series.typical_ns <= 0) continue;
      const uint32_t one[] = {r};
      Explanation e{.rank_indices = {r}, .pieces = excess_.LevelPieces(one, WorkKind::kCopies)};
      e.excess_ns = SumPerStep(e.pieces, steps_);
      if (e.excess_ns < (kSlowCopies - 1) * series.typical_ns || e.excess_ns < LeastNs()) continue;
      CauseFinding cause = rules_.OfCopies(r);
      e.cause = cause.cause;
      e.evidence = std::move(cause.evidence);
      NamePair(e);
      out_.list.push_back(std::move(e));
    }
  }

  const GraphInput& in_;
  const Gains& gains_;
  const Layout& layout_;
  Excess excess_;
  KernelKinds kinds_;
  CauseRules rules_;
  size_t steps_;
  uint32_t ranks_;
  std::vector<Pieces> pauses_;         // by rank index, without pauses that several ranks share
  std::vector<double> kernel_excess_;  // by rank index, relative
  std::vector<double> group_effect_;   // the part of kernel_excess_ that its stage shares
  std::vector<double> routed_ns_;      // by rank index, per step: time of its experts above the mean
  Explanations out_;
};

}  // namespace

Explanations Explain(const GraphInput& input, const Gains& gains, const Layout& layout) {
  return Explainer(input, gains, layout).Run();
}

}  // namespace lockstep::analysis
