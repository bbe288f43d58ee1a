#include "aggregator/analysis/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <numeric>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "aggregator/analysis/attribution.h"
#include "aggregator/analysis/causes.h"
#include "aggregator/analysis/links.h"
#include "aggregator/analysis/replay.h"
#include "aggregator/analysis/typical.h"

namespace lockstep::analysis {
namespace {

using store::kNone;

// Effects below this part of a step are never named: clocks of GPUs of one bin differ by about as much.
constexpr double kLeastShare = 0.005;
constexpr double kFloorSigmas = 3.0;
constexpr double kMedianInefficiency = 1.25;  // standard error of a median over that of a mean
// Every rank is replayed up to this many; beyond it only those on which the split puts most of the cost.
constexpr size_t kReplayedRanks = 64;
// Refining the split stops where it moves less than this part of the lost time; what is left is spread in proportion.
constexpr double kSplitTolerance = 1e-3;
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
      : in_(input),
        steps_(input.steps.count()),
        graph_(BuildGraph(input)),
        classes_(Classify(graph_, input)),
        typical_(graph_, classes_, steps_ >= kLeastSteps),
        replay_(graph_, steps_, FirstEnd(graph_, input)),
        causes_(input, graph_, classes_, typical_) {}

  Diagnosis Run() {
    out_.edges = graph_.edges;
    out_.cut_edges = graph_.cut_edges;
    if (graph_.units.empty() || steps_ == 0) return std::move(out_);
    replay_.Run(FreshTiming());
    out_.step_durations = replay_.StepDurations();
    out_.step_ns = replay_.StepTime();
    ideal_ = typical_.Ideal();
    // The split and the replays of single ranks need nothing of each other.
    std::future<Attribution> split = std::async(std::launch::async | std::launch::deferred, [this] { return Split(); });
    MeasureVariants();
    links_ = FindSlowLinks(in_, classes_, typical_);
    const bool few = in_.capture.ranks.size() <= kReplayedRanks;
    if (few) MeasureRankGains();
    GatherCosts(split.get());
    if (!few) MeasureRankGains();
    SetNoiseFloor();
    ListFindings();
    Balance();
    SayWhatItIsNot();
    return std::move(out_);
  }

 private:
  double PerStep(double total) const { return total / static_cast<double>(steps_); }

  // The observed values, in memory that every replay shares.
  Timing& FreshTiming() {
    scratch_.lead = graph_.lead;
    scratch_.work = graph_.work;
    return scratch_;
  }

  std::vector<double> GainPerStep(const Timing& timing) {
    replay_.Run(timing);
    std::vector<double> gain = replay_.StepDurations();
    for (size_t k = 0; k < gain.size(); ++k) gain[k] = out_.step_durations[k] - gain[k];
    return gain;
  }

  Attribution Split() const {
    Replay replay(graph_, steps_, FirstEnd(graph_, in_));
    Timing scratch;
    return Attribute(graph_, replay, ideal_, scratch, steps_, kSplitTolerance);
  }

  void MeasureVariants() {
    Timing& timing = FreshTiming();
    typical_.Level(timing);
    replay_.Run(timing);
    levelled_step_ns_ = replay_.StepTime();
    FreshTiming();
    for (uint32_t u = 0; u < graph_.units.size(); ++u) {
      if (graph_.units[u].kind == UnitKind::kTransfer) timing.work[u] = 0;
    }
    replay_.Run(timing);
    out_.transfer_free_step_ns = replay_.StepTime();
  }

  // The additive split, gathered per rank and kind of unit, and per group for transfers.
  void GatherCosts(const Attribution& split) {
    out_.lost_ns = PerStep(split.lost);
    out_.ideal_step_ns = out_.step_ns - out_.lost_ns;
    out_.noise_ns = levelled_step_ns_ - out_.ideal_step_ns;
    const Interval95 step = BootstrapMean(out_.step_durations);
    if (out_.ideal_step_ns > 0) out_.ratio_interval = {step.low / out_.ideal_step_ns, step.high / out_.ideal_step_ns};
    rank_cost_.resize(in_.capture.ranks.size());
    owner_cost_.assign(classes_.owners.size(), 0);
    for (uint32_t u = 0; u < graph_.units.size(); ++u) {
      if (split.cost[u] == 0) continue;
      const Unit& unit = graph_.units[u];
      const double cost = PerStep(split.cost[u]);
      RankCost& rank = rank_cost_[unit.rank_index];
      if (u == typical_.HeadOf(unit.rank_index)) {
        rank.head += cost;
        continue;
      }
      switch (unit.kind) {
        case UnitKind::kKernel: rank.kernels += cost; break;
        case UnitKind::kCopy: rank.copies += cost; break;
        case UnitKind::kTransfer:
          if (unit.instance != kNone) owner_cost_[classes_.owner_of_instance[unit.instance]] += cost;
          break;
        default: rank.host += cost;
      }
    }
  }

  void MeasureRankGains() {
    const size_t ranks = in_.capture.ranks.size();
    out_.rank_lost.resize(ranks);
    std::vector<uint32_t> order(ranks);
    std::iota(order.begin(), order.end(), 0u);
    if (ranks > kReplayedRanks) {
      std::stable_sort(order.begin(), order.end(),
                       [&](uint32_t a, uint32_t b) { return rank_cost_[a].total() > rank_cost_[b].total(); });
      order.resize(kReplayedRanks);
    }
    for (uint32_t r : order) {
      Timing& timing = FreshTiming();
      typical_.MakeRankTypical(r, kEverything, timing);
      out_.rank_lost[r] = GainPerStep(timing);
    }
  }

  // What ranks gain and lose from step to step by chance; half of them at least are taken to be healthy.
  void SetNoiseFloor() {
    if (steps_ < kLeastSteps) return;
    std::vector<double> errors;
    for (const auto& gains : out_.rank_lost) {
      if (gains.empty()) continue;
      errors.push_back(kMedianInefficiency * RobustSigma(gains) / std::sqrt(static_cast<double>(steps_)));
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
    const double lost = rank_cost_[r].total();
    const auto& gains = out_.rank_lost[r];
    if (lost < Floor() || gains.empty()) return;
    CauseFinding cause = causes_.Of(r, rank_cost_[r]);
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
    Timing& timing = FreshTiming();
    double lost = 0;
    for (uint32_t o : link.owners) {
      typical_.MakeTransfersTypical(o, timing);
      lost += owner_cost_[o];
    }
    if (lost < Floor()) return;
    Finding f;
    f.rank_indices = link.rank_indices;
    f.cause = Cause::kSlowLink;
    f.lost_ns = lost;
    f.gain_per_step = GainPerStep(timing);
    std::vector<std::string> names;
    for (uint32_t o : link.owners) names.push_back(OwnerName(classes_.owners[o]));
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
    if (steps_ < kLeastSteps) return;
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
    const double least = 1e-3 * out_.step_ns * static_cast<double>(steps_);
    f.delayed_ranks = static_cast<uint32_t>(
        std::count_if(waited.begin(), waited.end(), [&](Nanos w) { return static_cast<double>(w.ns()) > least; }));
    f.evidence.push_back(absl::StrFormat("others waited %s per step for it; it came last in %d of its %d collectives",
                                         LengthText(PerStep(static_cast<double>(sum.ns()))), times, instances));
  }

  void MeasureJointGain() {
    if (out_.findings.size() < 2) return;
    Timing& timing = FreshTiming();
    for (const Finding& f : out_.findings) {
      if (f.cause == Cause::kSlowLink) continue;
      for (uint32_t r : f.rank_indices) typical_.MakeRankTypical(r, kEverything, timing);
    }
    for (const SlowLink& link : links_.slow) {
      for (uint32_t o : link.owners) typical_.MakeTransfersTypical(o, timing);
    }
    out_.joint_gain_ns = Mean(GainPerStep(timing));
  }

  // Listed + noise + unlisted + unexplained == lost.
  void Balance() {
    double listed = 0, charged = 0;
    for (const Finding& f : out_.findings) listed += f.lost_ns;
    for (const RankCost& c : rank_cost_) charged += c.total();
    for (double c : owner_cost_) charged += c;
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
    for (uint32_t r = 0; r < rank_cost_.size(); ++r) {
      const auto k = causes_.Kernels(r);
      kernels |= k.classes > 0;
      slowest = std::max(slowest, k.ratio - 1);
      host = std::max(host, rank_cost_[r].host);
    }
    if (kernels && !found(Cause::kGpuClock) && slowest < 0.03) {
      out_.not_the_cause.push_back(absl::StrFormat("GPU speed: no rank's kernels take more than %.1f%% longer than its peers'", 100 * slowest));
    }
    const bool host_found = found(Cause::kDataLoader) || found(Cause::kHostPause) || found(Cause::kHostLaunch);
    if (!host_found && host < Floor() && graph_.units.size() > 0) {
      out_.not_the_cause.push_back(absl::StrFormat("hosts and data loading: at most %s per step on any rank", LengthText(std::max(0.0, host))));
    }
  }

  const GraphInput& in_;
  size_t steps_;
  Graph graph_;
  Classes classes_;
  TypicalValues typical_;
  Replay replay_;
  CauseRules causes_;
  Timing ideal_, scratch_;
  std::vector<RankCost> rank_cost_;   // per step, by rank index
  std::vector<double> owner_cost_;    // per step, by transfer owner
  LinkFindings links_;
  double levelled_step_ns_ = 0;  // every rank like its peers, noise kept
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
