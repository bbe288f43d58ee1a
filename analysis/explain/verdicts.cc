#include "analysis/explain/verdicts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "analysis/compare/excess.h"
#include "analysis/explain/causes.h"
#include "analysis/prepare/stats.h"
#include "base/median.h"

namespace lockstep::analysis {
namespace {

constexpr double kSure = 0.95;
constexpr double kLikely = 0.5;
// If less than this share of the communication is matched, no verdict is sure.
constexpr double kMatchedForSure = 0.9;
// A cause whose rule explains less than this share is not sure.
constexpr double kRuleForSure = 0.7;
// A rank for which the others wait for at least this share of a step, and whose own work is typical, passes
// on the delay of another rank.
constexpr double kWaitedFor = 0.02;

bool Named(const Finding& f, uint32_t rank_index) {
  return std::find(f.rank_indices.begin(), f.rank_indices.end(), rank_index) != f.rank_indices.end();
}

}  // namespace

void Judge(Finding& f, double floor, double rule_share, size_t steps, double matched) {
  f.gain_ns = Mean(f.gain_per_step);
  f.gain_interval = BootstrapMean(f.gain_per_step, f.is_affected);
  if (steps < kLeastSteps) return;
  const std::vector<double>& decides = Mean(f.marginal_gain) > f.gain_ns ? f.marginal_gain : f.gain_per_step;
  f.confidence = BootstrapFractionAbove(decides, floor);
  if (Mean(f.marginal_gain) > f.gain_ns + floor) {
    f.evidence.push_back(
        absl::StrFormat("alone it gains little because others are in the way too: with those fixed it still "
                        "costs %s per step",
                        LengthText(Mean(f.marginal_gain))));
  }
  if (!f.identified) {
    // No figure shows which of these ranks it is, so they share the confidence.
    f.confidence = *f.confidence / static_cast<double>(std::max<size_t>(1, f.rank_indices.size()));
    return;
  }
  // The gain may be zero.
  if (BootstrapMean(decides, f.is_affected).low <= 0) return;
  const bool explained = f.cause != Cause::kUnknown && rule_share >= kRuleForSure;
  if (!explained) f.confidence = std::min(*f.confidence, std::max(kLikely, rule_share));
  if (*f.confidence >= kSure && explained && matched >= kMatchedForSure) {
    f.verdict = Verdict::kSure;
  } else if (*f.confidence >= kLikely) {
    f.verdict = Verdict::kLikely;
  }
}

void DateFinding(Finding& f, const GraphInput& input, const Graph& graph) {
  const size_t steps = input.steps.count();
  if (f.fix.pieces.empty() || steps == 0) return;
  const std::vector<double> own = ByStep(f.fix.pieces, graph, steps);
  double sum = 0;
  size_t count = 0;
  const double mean = Mean(own);
  for (double v : own) {
    if (v < mean) continue;
    sum += v;
    ++count;
  }
  if (count == 0 || sum <= 0) return;
  const double limit = 0.5 * sum / static_cast<double>(count);
  std::vector<double> inside, before;
  size_t first = steps, last = 0;
  f.is_affected.assign(steps, 0);
  for (size_t k = 0; k < steps; ++k) {
    if (own[k] < limit) continue;
    f.is_affected[k] = 1;
    first = std::min(first, k);
    last = k;
    inside.push_back(own[k]);
  }
  f.since_step = input.steps.names[first];
  if (last + 1 < steps) f.until_step = input.steps.names[last];
  f.steps_affected = static_cast<double>(inside.size()) / static_cast<double>(steps);
  for (size_t k = 0; k < first; ++k) before.push_back(own[k]);
  if (!before.empty()) f.before_ns = Median(std::move(before));
  f.since_ns = Median(std::move(inside));
}

void CountDelayed(Finding& f, const GraphInput& in, double step_ns) {
  if (f.rank_indices.empty() || f.rank_indices.size() == in.capture.ranks.size()) return;
  std::vector<uint8_t> named(in.capture.ranks.size(), 0);
  for (uint32_t r : f.rank_indices) named[r] = 1;
  std::vector<Nanos> waited(in.capture.ranks.size());
  uint32_t times = 0, instances = 0;
  Nanos sum;
  for (size_t n = 0; n < in.matches.instances.size(); ++n) {
    const capture::Instance& instance = in.matches.instances[n];
    const InstanceTiming& timing = in.times.instances[n];
    if (StepOfInstance(in.capture, instance, timing, in.steps) < 0) continue;
    if (std::any_of(instance.members.begin(), instance.members.end(),
                    [&](const capture::Member& m) { return named[m.rank_index] != 0; }))
      ++instances;
    if (named[instance.members[timing.last].rank_index] == 0) continue;
    ++times;
    for (const capture::Member& m : instance.members) {
      if (named[m.rank_index] != 0) continue;
      waited[m.rank_index] += in.times.parts[m.rank_index][m.collective].wait;
      sum += in.times.parts[m.rank_index][m.collective].wait;
    }
  }
  const auto steps = static_cast<double>(in.steps.count());
  const double least = 1e-3 * step_ns * steps;
  f.delayed_ranks = static_cast<uint32_t>(std::count_if(
      waited.begin(), waited.end(), [&](Nanos w) { return static_cast<double>(w.ns()) > least; }));
  f.evidence.push_back(
      absl::StrFormat("the others together waited %s per step for %s; last in %d of %d collectives",
                      LengthText(static_cast<double>(sum.ns()) / steps),
                      f.rank_indices.size() == 1 ? "it" : "them", times, instances));
}

namespace {

class NotTheCauseLister {
 public:
  NotTheCauseLister(const GraphInput& input, const Gains& gains, const Explanations& seen,
                    const std::vector<Finding>& findings, double floor)
      : in_(input), gains_(gains), seen_(seen), findings_(findings), floor_(floor) {}

  std::vector<std::string> Run() {
    Network();
    Kernels();
    Hosts();
    Stages();
    Victims();
    return std::move(out_);
  }

 private:
  bool Found(std::initializer_list<Cause> causes) const {
    return std::any_of(findings_.begin(), findings_.end(), [&](const Finding& f) {
      return std::find(causes.begin(), causes.end(), f.cause) != causes.end();
    });
  }
  int32_t RankNumber(uint32_t r) const { return in_.capture.ranks[r].rank.value(); }

  void Network() {
    if (seen_.links.compared.empty() || Found({Cause::kSlowLink, Cause::kCongestion})) return;
    double worst = 1;
    for (const TransferComparison& t : seen_.links.compared) worst = std::max(worst, t.ratio);
    out_.push_back(absl::StrFormat(
        "network: transfers of all %d comparable groups and pairs within %.1f%% of their peers'",
        static_cast<int>(seen_.links.compared.size()), 100 * (worst - 1)));
  }

  void Kernels() {
    if (Found({Cause::kGpuClock, Cause::kGpuMemory, Cause::kContention}) ||
        seen_.slowest_rank == capture::kNone || seen_.slowest_kernels > 1.03)
      return;
    out_.push_back(
        absl::StrFormat("GPU speed: no rank's kernels take more than %.1f%% longer than its peers' (rank %d)",
                        100 * (seen_.slowest_kernels - 1), RankNumber(seen_.slowest_rank)));
  }

  void Hosts() {
    if (Found({Cause::kDataLoader, Cause::kHostPause, Cause::kHostLaunch, Cause::kHostAllocator,
               Cause::kCpuContention, Cause::kCheckpoint}))
      return;
    if (in_.capture.ranks.size() < 2) return;
    double host = 0;
    for (const RankCost& c : gains_.rank_costs()) host = std::max(host, c.host);
    if (host < floor_)
      out_.push_back(absl::StrFormat(
          "single hosts: no rank's host or data loader takes over %s per step longer than its peers'",
          LengthText(std::max(0.0, host))));
  }

  void Stages() {
    if (seen_.stage_spread <= 0 || Found({Cause::kStageImbalance}) || seen_.stage_spread > 0.03) return;
    out_.push_back(absl::StrFormat("stages: the slowest computes %.1f%% more than their mean",
                                   100 * seen_.stage_spread));
  }

  // The rank that ends most waiting without being slow itself. A count of last arrivals would name it, so it
  // is listed.
  void Victims() {
    if (findings_.empty()) return;
    const std::vector<Nanos> caused = CausedWaitInSteps(in_.capture, in_.matches, in_.times, in_.steps);
    const auto steps = static_cast<double>(in_.steps.count());
    uint32_t most = capture::kNone;
    for (uint32_t r = 0; r < caused.size(); ++r) {
      if (std::any_of(findings_.begin(), findings_.end(), [&](const Finding& f) { return Named(f, r); }))
        continue;
      if (most == capture::kNone || caused[r] > caused[most]) most = r;
    }
    if (most == capture::kNone || gains_.rank_costs()[most].total() >= floor_) return;
    const double waited = static_cast<double>(caused[most].ns()) / steps;
    if (waited < kWaitedFor * gains_.step_ns()) return;
    // `waited` is a sum over ranks. Beside the means of the report it would look like the largest cause.
    out_.push_back(absl::StrFormat(
        "rank %d: others wait for it, but its own work costs %s: it passes on what it waited itself",
        RankNumber(most), LengthText(std::max(0.0, gains_.rank_costs()[most].total()))));
  }

  const GraphInput& in_;
  const Gains& gains_;
  const Explanations& seen_;
  const std::vector<Finding>& findings_;
  double floor_;
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> NotTheCause(const GraphInput& input, const Gains& gains, const Explanations& seen,
                                     const std::vector<Finding>& findings, double floor) {
  return NotTheCauseLister(input, gains, seen, findings, floor).Run();
}

}  // namespace lockstep::analysis
