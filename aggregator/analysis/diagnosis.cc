#include "aggregator/analysis/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "aggregator/analysis/causes.h"
#include "aggregator/analysis/gains.h"
#include "aggregator/analysis/links.h"

namespace lockstep::analysis {
namespace {

// Effects below this part of a step are never named: clocks of GPUs of one bin differ by about as much.
constexpr double kLeastShare = 0.005;
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
    Balance();
    SayWhatItIsNot();
    return std::move(out_);
  }

 private:
  double PerStep(double total) const { return total / static_cast<double>(gains_.steps()); }

  void TakeFigures() {
    out_.step_durations = gains_.step_durations();
    out_.step_ns = gains_.step_ns();
    out_.transfer_free_step_ns = gains_.transfer_free_step_ns();
    out_.lost_ns = gains_.lost_ns();
    out_.ideal_step_ns = gains_.ideal_step_ns();
    out_.noise_ns = gains_.levelled_step_ns() - out_.ideal_step_ns;
    const Interval95 step = BootstrapMean(out_.step_durations);
    if (out_.ideal_step_ns > 0) out_.ratio_interval = {step.low / out_.ideal_step_ns, step.high / out_.ideal_step_ns};
    out_.rank_lost = gains_.rank_gains();
  }

  // What ranks gain and lose from step to step by chance; half of them at least are taken to be healthy.
  void SetNoiseFloor() {
    if (gains_.steps() < kLeastSteps) return;
    std::vector<double> errors;
    for (const auto& gains : out_.rank_lost) {
      if (gains.empty()) continue;
      errors.push_back(kMedianInefficiency * RobustSigma(gains) / std::sqrt(static_cast<double>(gains_.steps())));
    }
    out_.noise_floor_ns = std::max(kLeastShare * out_.step_ns, kFloorSigmas * Median(errors));
  }

  double Floor() const { return out_.noise_floor_ns.value_or(kListedWithoutFloor * out_.step_ns); }

  void ListFindings() {
    if (MatchedFraction() < kMatchedForVerdict) return;
    for (const SlowLink& link : links_.slow) AddLink(link);
    for (uint32_t r = 0; r < in_.capture.ranks.size(); ++r) AddRank(r);
    std::stable_sort(out_.findings.begin(), out_.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.lost_ns > b.lost_ns; });
    for (Finding& f : out_.findings) Judge(f);
    MeasureJointGain();
  }

  void AddRank(uint32_t r) {
    const double lost = gains_.rank_costs()[r].total();
    const auto& gains = out_.rank_lost[r];
    if (lost < Floor() || gains.empty()) return;
    CauseFinding cause = causes_.Of(r, gains_.rank_costs()[r]);
    Finding f;
    f.rank_indices = {r};
    f.cause = cause.cause;
    f.evidence = std::move(cause.evidence);
    f.late = cause.late;
    f.lost_ns = lost;
    f.gain_per_step = gains;
    out_.findings.push_back(std::move(f));
  }

  void AddLink(const SlowLink& link) {
    double lost = 0;
    for (uint32_t o : link.owners) lost += gains_.owner_costs()[o];
    if (lost < Floor()) return;
    Finding f;
    f.rank_indices = link.rank_indices;
    f.cause = Cause::kSlowLink;
    f.lost_ns = lost;
    f.gain_per_step = gains_.Of({.rank_indices = {}, .owners = link.owners});
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
    f.confidence = BootstrapFractionAbove(f.gain_per_step, Floor());
    const double matched = MatchedFraction();
    if (*f.confidence >= kSure && f.rank_indices.size() == 1 && matched >= kMatchedForSure) {
      f.verdict = Verdict::kSure;
    } else if (*f.confidence >= 0.5) {
      f.verdict = Verdict::kLikely;
    }
    for (size_t k = 0; k < f.gain_per_step.size() && !f.since_step; ++k) {
      if (f.gain_per_step[k] > std::max(Floor(), f.gain_ns / 2)) f.since_step = in_.steps.names[k];
    }
  }

  double MatchedFraction() const {
    uint64_t matched = 0;
    for (const align::Instance& i : in_.matches.instances) matched += i.complete ? i.members.size() : 0;
    const uint64_t all = matched + in_.matches.unmatched;
    return all == 0 ? 1 : static_cast<double>(matched) / static_cast<double>(all);
  }

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

  void MeasureJointGain() {
    if (out_.findings.size() < 2) return;
    Fix all;
    for (const Finding& f : out_.findings) {
      if (f.cause == Cause::kSlowLink) continue;
      all.rank_indices.insert(all.rank_indices.end(), f.rank_indices.begin(), f.rank_indices.end());
    }
    for (const SlowLink& link : links_.slow) all.owners.insert(all.owners.end(), link.owners.begin(), link.owners.end());
    out_.joint_gain_ns = Mean(gains_.Of(all));
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
