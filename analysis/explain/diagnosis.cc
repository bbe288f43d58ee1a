#include "analysis/explain/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "analysis/explain/causes.h"
#include "analysis/explain/chance.h"
#include "analysis/explain/explain.h"
#include "analysis/explain/verdicts.h"
#include "analysis/gains/gains.h"
#include "base/median.h"

namespace lockstep::analysis {
namespace {

// Without a noise floor (too few steps), only costs of at least this share of a step are listed.
constexpr double kListedWithoutFloor = 0.02;
// Number of hidden delays that are replayed, the largest first.
constexpr size_t kMostHidden = 32;

class Diagnostician {
 public:
  explicit Diagnostician(const GraphInput& input) : in_(input), gains_(input) {}

  Diagnosis Run() {
    out_.edges = gains_.graph().edges;
    out_.cut_edges = gains_.graph().cut_edges;
    if (gains_.empty()) return std::move(out_);
    gains_.Measure();
    TakeFigures();
    SetNoiseFloor();
    out_.has_ideal = out_.lost_ns >= -Floor();
    if (Matched() >= kMatchedForVerdict && AllGraphsSeen()) {
      if (gains_.steps() >= kLeastSteps) {
        ListExplanations();
      } else {
        ListCostliestRanks();
      }
    }
    LowerIdeal();
    TraceWaiting();
    Balance();
    if (gains_.steps() >= kLeastSteps)
      out_.not_the_cause = NotTheCause(in_, gains_, seen_, out_.findings, Floor());
    return std::move(out_);
  }

 private:
  // Without the records of a graph's kernels, a rank that works seems to be idle.
  bool AllGraphsSeen() const {
    return std::all_of(in_.capture.ranks.begin(), in_.capture.ranks.end(),
                       [](const capture::RankData& r) { return r.unseen_graph_launches == 0; });
  }
  double Matched() const { return in_.matches.MatchedFraction().value_or(1); }

  void TraceWaiting() {
    out_.layout = gains_.layout();
    std::vector<uint32_t> named;
    for (const Finding& f : out_.findings) {
      // A finding about all ranks is not the delay of one of them.
      if (f.kind != CulpritKind::kJob && f.kind != CulpritKind::kData)
        named.insert(named.end(), f.rank_indices.begin(), f.rank_indices.end());
    }
    gains_.Rest();
    out_.waiting = SummarizeWaiting(in_, gains_, out_.layout, named);
  }

  void TakeFigures() {
    out_.step_durations = gains_.step_durations();
    out_.step_ns = gains_.step_ns();
    out_.transfer_free_step_ns = gains_.transfer_free_step_ns();
    out_.ideal_transfer_free_step_ns = gains_.ideal_transfer_free_step_ns();
    MeasureIdealCompute();
    out_.lost_ns = gains_.lost_ns();
    out_.ideal_step_ns = gains_.ideal_step_ns();
    out_.noise_ns = gains_.straggler_free_step_ns() - out_.ideal_step_ns;
    const Interval95 step = BootstrapMean(out_.step_durations);
    if (out_.ideal_step_ns > 0)
      out_.ratio_interval = {step.low / out_.ideal_step_ns, step.high / out_.ideal_step_ns};
    out_.rank_step_lost = gains_.rank_step_costs();
    out_.rank_gain_bounds = gains_.rank_gain_bounds();
    for (const auto& gains : gains_.rank_gains()) {
      out_.rank_gains.push_back(gains.empty() ? std::numeric_limits<double>::quiet_NaN() : Mean(gains));
    }
    for (double cost : gains_.owner_costs()) out_.critical_communication_ns += cost;
  }

  void MeasureIdealCompute() {
    std::vector<double> compute(in_.capture.ranks.size(), 0);
    for (uint32_t u = 0; u < gains_.graph().units.size(); ++u) {
      const Unit& unit = gains_.graph().units[u];
      if (unit.step >= 0 && unit.kind == UnitKind::kKernel)
        compute[unit.rank_index] += gains_.ideal().work[u];
    }
    out_.ideal_compute_ns =
        *std::max_element(compute.begin(), compute.end()) / static_cast<double>(gains_.steps());
  }

  // The floor is the split's charge to the costliest rank if all ranks are alike: the ranks' labels are
  // permuted within blocks of steps.
  void SetNoiseFloor() {
    if (gains_.steps() < kLeastSteps) return;
    out_.noise_floor_ns = std::max(kLeastShare * out_.step_ns, PermutationFloor(gains_.rank_step_costs()));
  }

  double Floor() const { return out_.noise_floor_ns.value_or(kListedWithoutFloor * out_.step_ns); }

  // ---- with enough steps

  void ListExplanations() {
    seen_ = Explain(in_, gains_, gains_.layout());
    out_.not_judged = std::move(seen_.not_judged);
    for (Explanation& e : seen_.list) Add(std::move(e));
    KeepCostly();
    if (AddHidden()) KeepCostly();
    ShareAmongEquals();
    Order();
    out_.fixes = GreedyFixes(gains_, Fixes(), Floor());
    for (size_t i = 0; i < out_.findings.size(); ++i) {
      Finding& f = out_.findings[i];
      DateFinding(f, in_, gains_.graph());
      Judge(f, Floor(), rule_shares_[i], gains_.steps(), Matched());
      CountDelayed(f, in_, out_.step_ns);
    }
  }

  void Add(Explanation e) {
    Finding f{.kind = e.kind,
              .rank_indices = std::move(e.rank_indices),
              .identified = e.identified,
              .cause = e.cause};
    f.lost_ns = gains_.LostTo(e.pieces);
    f.fix.pieces = std::move(e.pieces);
    f.evidence = std::move(e.evidence);
    f.late = e.late;
    f.leaves_host = e.leaves_host;
    rule_shares_.push_back(e.rule_share);
    out_.findings.push_back(std::move(f));
  }

  // Adds the hidden delays that cost time once the findings are fixed. Returns false if there are none.
  bool AddHidden() {
    if (out_.findings.empty()) return false;
    std::vector<Fix> fixes = {Together(Fixes())};
    const size_t examined = std::min(seen_.hidden.size(), kMostHidden);
    for (size_t i = 0; i < examined; ++i) {
      const Fix both[] = {fixes[0], {.pieces = seen_.hidden[i].pieces}};
      fixes.push_back(Together(both));
    }
    const std::vector<std::vector<double>> gains = gains_.OfEach(fixes);
    bool added = false;
    for (size_t i = 0; i < examined; ++i) {
      if (Mean(gains[i + 1]) - Mean(gains[0]) < Floor()) continue;
      Add(std::move(seen_.hidden[i]));
      added = true;
    }
    return added;
  }

  std::vector<Fix> Fixes() const {
    std::vector<Fix> fixes;
    for (const Finding& f : out_.findings) fixes.push_back(f.fix);
    return fixes;
  }

  template <typename Keep>
  void Filter(const Keep& keep) {
    size_t kept = 0;
    for (size_t i = 0; i < out_.findings.size(); ++i) {
      if (!keep(out_.findings[i])) continue;
      std::swap(out_.findings[kept], out_.findings[i]);
      std::swap(rule_shares_[kept++], rule_shares_[i]);
    }
    out_.findings.resize(kept);
    rule_shares_.resize(kept);
  }

  // A finding that costs less than the floor, alone and beside the others, is not listed.
  void KeepCostly() {
    for (int round = 0; round < 2; ++round) {
      const std::vector<Fix> fixes = Fixes();
      const std::vector<std::vector<double>> alone = gains_.OfEach(fixes);
      const std::vector<std::vector<double>> beside = MarginalGains(gains_, fixes);
      for (size_t i = 0; i < fixes.size(); ++i) {
        out_.findings[i].gain_per_step = alone[i];
        out_.findings[i].marginal_gain = beside[i];
      }
      const size_t before = out_.findings.size();
      Filter([&](const Finding& f) {
        const double gain = std::max(Mean(f.gain_per_step), Mean(f.marginal_gain));
        return gain >= Floor() && std::max(f.lost_ns, Mean(f.marginal_gain)) >= Floor();
      });
      if (out_.findings.size() == before) return;
    }
  }

  // If two culprits delay all ranks together, the split charges only the slower one. In that case, the
  // charges to all findings are divided among them fairly.
  void ShareAmongEquals() {
    for (Finding& f : out_.findings) f.hidden = f.lost_ns < Floor();
    if (std::none_of(out_.findings.begin(), out_.findings.end(), [](const Finding& f) { return f.hidden; }))
      return;
    const std::vector<std::vector<double>> shares = ShapleyValues(gains_, Fixes());
    double charged = 0, shared = 0;
    for (size_t i = 0; i < shares.size(); ++i) {
      charged += out_.findings[i].lost_ns;
      shared += Mean(shares[i]);
    }
    if (shared <= 0 || charged <= 0) return;
    for (size_t i = 0; i < shares.size(); ++i) {
      out_.findings[i].lost_ns = Mean(shares[i]) * charged / shared;
    }
    ShareSteps(shares);
    Filter([&](const Finding& f) { return f.lost_ns >= Floor(); });
  }

  // Divides each step's charge to the ranks of these findings in the same way. Its sum stays the same.
  void ShareSteps(const std::vector<std::vector<double>>& shares) {
    std::map<uint32_t, std::vector<double>> of_rank;
    for (size_t i = 0; i < shares.size(); ++i) {
      const Finding& f = out_.findings[i];
      if (f.kind != CulpritKind::kRank || f.rank_indices.size() != 1) continue;
      std::vector<double>& sum = of_rank.try_emplace(f.rank_indices[0], shares[i].size(), 0).first->second;
      for (size_t k = 0; k < sum.size(); ++k) sum[k] += std::max(0.0, shares[i][k]);
    }
    for (size_t k = 0; k < gains_.steps(); ++k) {
      double charged = 0, shared = 0;
      for (const auto& [rank, share] : of_rank) {
        charged += out_.rank_step_lost[rank][k];
        shared += share[k];
      }
      if (shared <= 0) continue;
      for (const auto& [rank, share] : of_rank) out_.rank_step_lost[rank][k] = charged * share[k] / shared;
    }
  }

  void Order() {
    std::vector<size_t> order(out_.findings.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return out_.findings[a].lost_ns > out_.findings[b].lost_ns; });
    std::vector<Finding> findings;
    std::vector<double> shares;
    for (size_t i : order) {
      findings.push_back(std::move(out_.findings[i]));
      shares.push_back(rule_shares_[i]);
    }
    out_.findings = std::move(findings);
    rule_shares_ = std::move(shares);
  }

  // ---- with too few steps

  void ListCostliestRanks() {
    const Excess excess(in_, gains_.graph(), gains_.classes(), gains_.typical(), {});
    const KernelKinds kinds(in_.capture);
    const CauseRules rules(in_, gains_, excess, kinds);
    for (uint32_t r = 0; r < in_.capture.ranks.size(); ++r) {
      const RankCost& cost = gains_.rank_costs()[r];
      if (cost.total() < Floor()) continue;
      CauseFinding cause = rules.OfCost(r, cost);
      Finding f{.rank_indices = {r}, .cause = cause.cause, .lost_ns = cost.total()};
      f.fix.rank_indices = {r};
      f.evidence = std::move(cause.evidence);
      f.late = cause.late;
      f.gain_per_step = gains_.Of(f.fix);
      f.marginal_gain = f.gain_per_step;
      out_.findings.push_back(std::move(f));
    }
    rule_shares_.assign(out_.findings.size(), 0);
    Order();
    out_.fixes = GreedyFixes(gains_, Fixes(), Floor());
    for (Finding& f : out_.findings) {
      Judge(f, Floor(), 0, gains_.steps(), Matched());
      CountDelayed(f, in_, out_.step_ns);
    }
  }

  // A job whose culprits are fixed is possible, so the ideal step is not longer than its step. The medians of
  // the ideal contain the culprits.
  void LowerIdeal() {
    double gain = 0;
    for (const Finding& f : out_.findings) gain = std::max(gain, f.gain_ns);
    for (const FixSet& fix : out_.fixes) gain = std::max(gain, Mean(fix.gain_per_step));
    const double ideal = std::min(out_.ideal_step_ns, out_.step_ns - gain);
    if (!out_.has_ideal || ideal <= 0 || ideal == out_.ideal_step_ns) return;
    const double scale = out_.ideal_step_ns / ideal;
    out_.ratio_interval = {out_.ratio_interval.low * scale, out_.ratio_interval.high * scale};
    out_.lost_ns += out_.ideal_step_ns - ideal;
    out_.ideal_step_ns = ideal;
  }

  // Listed + noise + unlisted + unexplained == lost.
  void Balance() {
    double listed = 0, charged = 0;
    for (const Finding& f : out_.findings) listed += f.lost_ns;
    for (const RankCost& c : gains_.rank_costs()) charged += c.total();
    for (double c : gains_.owner_costs()) charged += c;
    out_.unlisted_ns = charged - listed - out_.noise_ns;
    out_.unexplained_ns = out_.lost_ns - listed - out_.noise_ns - out_.unlisted_ns;
  }

  const GraphInput& in_;
  Gains gains_;
  Explanations seen_;
  std::vector<double> rule_shares_;  // by finding
  Diagnosis out_;
};

}  // namespace

Diagnosis Diagnose(const GraphInput& input) { return Diagnostician(input).Run(); }

}  // namespace lockstep::analysis
