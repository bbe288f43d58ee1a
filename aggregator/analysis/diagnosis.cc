#include "aggregator/analysis/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "aggregator/analysis/causes.h"
#include "aggregator/analysis/gains.h"
#include "aggregator/analysis/links.h"

namespace lockstep::analysis {
namespace {

constexpr double kFloorSigmas = 3.0;
constexpr double kMedianInefficiency = 1.25;  // standard error of a median over that of a mean
constexpr double kSure = 0.95;
// Waiting that could not be matched to its cause weakens every verdict.
constexpr double kMatchedForSure = 0.9;
// Without a noise floor (too few steps) only what costs this part of the step is listed.
constexpr double kListedWithoutFloor = 0.02;

double Mean(const std::vector<double>& v) {
  return v.empty() ? 0 : std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

class Diagnostician {
 public:
  explicit Diagnostician(const GraphInput& input)
      : in_(input), gains_(input), causes_(input, gains_.graph(), gains_.classes(), gains_.typical()) {}

  Diagnosis Run() {
    out_.edges = gains_.graph().edges;
    out_.cut_edges = gains_.graph().cut_edges;
    if (gains_.empty()) return std::move(out_);
    gains_.Measure();
    TakeFigures();
    links_ = FindSlowLinks(in_, gains_.classes(), gains_.typical());
    SetNoiseFloor();
    ListFindings();
    TraceWaiting();
    Balance();
    SayWhatItIsNot();
    return std::move(out_);
  }

 private:
  double PerStep(double total) const { return total / static_cast<double>(gains_.steps()); }

  void TraceWaiting() {
    out_.layout = gains_.layout();
    std::vector<uint32_t> named;
    for (const Finding& f : out_.findings) named.insert(named.end(), f.rank_indices.begin(), f.rank_indices.end());
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
    out_.noise_ns = gains_.levelled_step_ns() - out_.ideal_step_ns;
    const Interval95 step = BootstrapMean(out_.step_durations);
    if (out_.ideal_step_ns > 0) out_.ratio_interval = {step.low / out_.ideal_step_ns, step.high / out_.ideal_step_ns};
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
      if (unit.step >= 0 && unit.kind == UnitKind::kKernel) compute[unit.rank_index] += gains_.ideal().work[u];
    }
    out_.ideal_compute_ns = PerStep(*std::max_element(compute.begin(), compute.end()));
  }

  // What ranks gain and lose from step to step by chance; half of them at least are taken to be healthy.
  void SetNoiseFloor() {
    if (gains_.steps() < kLeastSteps) return;
    std::vector<double> errors;
    for (const auto& gains : gains_.rank_gains()) {
      if (gains.empty()) continue;
      errors.push_back(kMedianInefficiency * RobustSigma(gains) / std::sqrt(static_cast<double>(gains_.steps())));
    }
    out_.noise_floor_ns = std::max(kLeastShare * out_.step_ns, kFloorSigmas * Median(errors));
  }

  double Floor() const { return out_.noise_floor_ns.value_or(kListedWithoutFloor * out_.step_ns); }

  void ListFindings() {
    if (MatchedFraction() < kMatchedForVerdict) return;
    for (const SlowLink& link : links_.slow) AddLink(link);
    for (uint32_t r = 0; r < in_.capture.ranks.size(); ++r) {
      if (gains_.rank_costs()[r].total() >= Floor()) AddRank(r);
    }
    AddHidden();
    std::stable_sort(out_.findings.begin(), out_.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.lost_ns > b.lost_ns; });
    MeasureGains();
    for (Finding& f : out_.findings) Judge(f);
  }

  void AddRank(uint32_t r) {
    CauseFinding cause = causes_.Of(r, gains_.rank_costs()[r]);
    Finding f;
    f.rank_indices = {r};
    f.fix = {.rank_indices = {r}, .owners = {}};
    f.cause = cause.cause;
    f.evidence = std::move(cause.evidence);
    f.late = cause.late;
    f.lost_ns = gains_.rank_costs()[r].total();
    out_.findings.push_back(std::move(f));
  }

  std::vector<Fix> FixesOfFindings() const {
    std::vector<Fix> fixes;
    for (const Finding& f : out_.findings) fixes.push_back(f.fix);
    return fixes;
  }

  // Who would be in the way next: of two that hold everybody back together, the split charges the slower one alone. Where there
  // are such, what it charges to all of them is shared fairly.
  void AddHidden() {
    const std::vector<uint32_t> hidden = FindHidden(gains_, FixesOfFindings(), Floor());
    if (hidden.empty()) return;
    for (uint32_t r : hidden) {
      AddRank(r);
      out_.findings.back().hidden = true;
    }
    const std::vector<std::vector<double>> shares = FairShares(gains_, FixesOfFindings());
    double charged = 0, shared = 0;
    for (size_t i = 0; i < shares.size(); ++i) {
      charged += out_.findings[i].lost_ns;
      shared += Mean(shares[i]);
    }
    if (shared <= 0) return;
    for (size_t i = 0; i < shares.size(); ++i) {
      Finding& f = out_.findings[i];
      f.lost_ns = Mean(shares[i]) * charged / shared;
      if (f.fix.rank_indices.size() != 1) continue;
      std::vector<double>& by_step = out_.rank_step_lost[f.fix.rank_indices[0]];
      for (size_t k = 0; k < by_step.size(); ++k) by_step[k] = shares[i][k] * charged / shared;
    }
    std::erase_if(out_.findings, [&](const Finding& f) { return f.lost_ns < Floor(); });
  }

  void MeasureGains() {
    const std::vector<Fix> fixes = FixesOfFindings();
    const std::vector<std::vector<double>> alone = gains_.OfEach(fixes);
    const std::vector<std::vector<double>> beside = GainsBesideOthers(gains_, fixes);
    for (size_t i = 0; i < fixes.size(); ++i) {
      out_.findings[i].gain_per_step = alone[i];
      out_.findings[i].gain_beside_others = beside[i];
    }
    out_.fixes = GreedyFixes(gains_, fixes, Floor());
  }

  void AddLink(const SlowLink& link) {
    double lost = 0;
    for (uint32_t o : link.owners) lost += gains_.owner_costs()[o];
    if (lost < Floor()) return;
    Finding f;
    f.rank_indices = link.rank_indices;
    f.cause = Cause::kSlowLink;
    f.lost_ns = lost;
    f.fix = {.rank_indices = {}, .owners = link.owners};
    std::vector<std::string> names;
    for (uint32_t o : link.owners) names.push_back(OwnerName(gains_.classes().owners[o]));
    f.evidence.push_back(absl::StrFormat("transfers take %.2fx as long as others' of the same size, in everything it shares with others (%s)",
                                         link.ratio, absl::StrJoin(names, ", ")));
    out_.findings.push_back(std::move(f));
  }

  std::string OwnerName(const TransferOwner& owner) const {
    const std::string& group = in_.capture.groups[owner.group].name;
    if (!owner.is_pair) return group;
    return absl::StrFormat("%s between ranks %d and %d", group, in_.capture.ranks[owner.rank_indices[0]].rank.value(),
                           in_.capture.ranks[owner.rank_indices[1]].rank.value());
  }

  void Judge(Finding& f) {
    f.gain_ns = Mean(f.gain_per_step);
    f.gain_interval = BootstrapMean(f.gain_per_step);
    CountDelayed(f);
    if (gains_.steps() < kLeastSteps) return;
    const std::vector<double>& decides = Mean(f.gain_beside_others) > f.gain_ns ? f.gain_beside_others : f.gain_per_step;
    f.confidence = BootstrapFractionAbove(decides, Floor());
    if (Mean(f.gain_beside_others) > f.gain_ns + Floor()) {
      f.evidence.push_back(absl::StrFormat("alone it gains little because others are in the way too: with those fixed it still costs %s per step",
                                           LengthText(Mean(f.gain_beside_others))));
    }
    const double matched = MatchedFraction();
    if (*f.confidence >= kSure && f.rank_indices.size() == 1 && matched >= kMatchedForSure) {
      f.verdict = Verdict::kSure;
    } else if (*f.confidence >= 0.5) {
      f.verdict = Verdict::kLikely;
    }
    for (size_t k = 0; k < decides.size() && !f.since_step; ++k) {
      if (decides[k] > std::max(Floor(), Mean(decides) / 2)) f.since_step = in_.steps.names[k];
    }
  }

  double MatchedFraction() const { return in_.matches.MatchedFraction().value_or(1); }

  // Who waited for it, directly.
  void CountDelayed(Finding& f) const {
    std::vector<Nanos> waited(in_.capture.ranks.size());
    uint32_t times = 0, instances = 0;
    Nanos sum;
    const auto named = [&](uint32_t r) { return std::find(f.rank_indices.begin(), f.rank_indices.end(), r) != f.rank_indices.end(); };
    for (size_t n = 0; n < in_.matches.instances.size(); ++n) {
      const align::Instance& instance = in_.matches.instances[n];
      const InstanceTiming& timing = in_.times.instances[n];
      if (StepOfInstance(in_.capture, instance, timing, in_.steps) < 0) continue;
      if (std::any_of(instance.members.begin(), instance.members.end(), [&](const align::Member& m) { return named(m.rank_index); })) ++instances;
      if (!named(instance.members[timing.last].rank_index)) continue;
      ++times;
      for (const align::Member& m : instance.members) {
        if (named(m.rank_index)) continue;
        waited[m.rank_index] += in_.times.parts[m.rank_index][m.collective].wait;
        sum += in_.times.parts[m.rank_index][m.collective].wait;
      }
    }
    const double least = 1e-3 * out_.step_ns * static_cast<double>(gains_.steps());
    f.delayed_ranks = static_cast<uint32_t>(
        std::count_if(waited.begin(), waited.end(), [&](Nanos w) { return static_cast<double>(w.ns()) > least; }));
    f.evidence.push_back(absl::StrFormat("others waited %s per step for it; it came last in %d of its %d collectives",
                                         LengthText(PerStep(static_cast<double>(sum.ns()))), times, instances));
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

  void SayWhatItIsNot() {
    const auto found = [&](Cause cause) {
      return std::any_of(out_.findings.begin(), out_.findings.end(), [&](const Finding& f) { return f.cause == cause; });
    };
    if (!links_.compared.empty() && !found(Cause::kSlowLink)) {
      double worst = 1;
      for (const TransferComparison& t : links_.compared) worst = std::max(worst, t.ratio());
      out_.not_the_cause.push_back(absl::StrFormat("network: transfers of all %d comparable groups and pairs within %.1f%% of their peers'",
                                                   static_cast<int>(links_.compared.size()), 100 * (worst - 1)));
    }
    double slowest = 0;
    double host = 0;
    bool kernels = false;
    for (uint32_t r = 0; r < gains_.rank_costs().size(); ++r) {
      const auto k = causes_.Kernels(r);
      kernels |= k.classes > 0;
      slowest = std::max(slowest, k.ratio - 1);
      host = std::max(host, gains_.rank_costs()[r].host);
    }
    if (kernels && !found(Cause::kGpuClock) && slowest < 0.03) {
      out_.not_the_cause.push_back(absl::StrFormat("GPU speed: no rank's kernels take more than %.1f%% longer than its peers'", 100 * slowest));
    }
    const bool host_found = found(Cause::kDataLoader) || found(Cause::kHostPause) || found(Cause::kHostLaunch);
    if (!host_found && host < Floor() && gains_.graph().units.size() > 0) {
      out_.not_the_cause.push_back(absl::StrFormat("hosts and data loading: at most %s per step on any rank", LengthText(std::max(0.0, host))));
    }
  }

  const GraphInput& in_;
  Gains gains_;
  CauseRules causes_;
  LinkFindings links_;
  Diagnosis out_;
};

}  // namespace

std::string_view CauseName(Cause cause) {
  switch (cause) {
    case Cause::kUnknown: return "unknown";
    case Cause::kGpuClock: return "gpu_clock";
    case Cause::kHostLaunch: return "host_launch";
    case Cause::kDataLoader: return "data_loader";
    case Cause::kHostPause: return "host_pause";
    case Cause::kHostAllocator: return "host_allocator";
    case Cause::kSlowLink: return "slow_link";
    case Cause::kCopy: return "copy";
    case Cause::kVictim: return "victim";
    case Cause::kContention: return "contention";
  }
  return "unknown";
}

Diagnosis Diagnose(const GraphInput& input) { return Diagnostician(input).Run(); }

}  // namespace lockstep::analysis
