#include "analysis/explain/causes.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace lockstep::analysis {
namespace {

// A rule holds if it explains at least this share of the excess.
constexpr double kExplains = 0.6;
constexpr double kMostClasses = 0.8;
// If kernels slow down this many times as much beside communication as alone, the cause runs beside them.
constexpr double kBesideTimes = 3.0;
// If memory-bound kernels slow down this many times as much as those bound by arithmetic, the memory is the
// cause. A slow clock has the opposite effect.
constexpr double kMemoryTimes = 1.5;
constexpr double kLeastRatio = 0.003;
// A checkpoint is written at one place of the step, which may be recorded before or after the step's end.
constexpr uint32_t kCheckpointPlaces = 2;
// This many letters of a kernel's name identify it.
constexpr size_t kMostOfName = 40;

std::string ShortName(std::string_view name) { return std::string(name.substr(0, kMostOfName)); }

std::string PercentText(double share) { return absl::StrFormat("%+.1f%%", 100 * share); }

}  // namespace

std::string LengthText(double ns) {
  const double size = std::fabs(ns);
  double value = ns;
  const char* unit = "ns";
  if (size >= 1e9) {
    value = ns / 1e9;
    unit = "s";
  } else if (size >= 1e6) {
    value = ns / 1e6;
    unit = "ms";
  } else if (size >= 1e3) {
    value = ns / 1e3;
    unit = "us";
  }
  const double shown = std::fabs(value);
  const int digits = shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f %s", unit[0] == 'n' ? 0 : digits, value, unit);
}

KernelRatios CauseRules::Kernels(std::span<const uint32_t> rank_indices) const {
  return CompareKernels(in_, gains_.graph(), gains_.classes(), gains_.typical(), excess_, kinds_,
                        rank_indices);
}

CauseFinding CauseRules::OfKernels(std::span<const uint32_t> rank_indices, double z) const {
  CauseFinding out;
  const KernelRatios k = Kernels(rank_indices);
  TimeRatio arithmetic = k.Of(KernelKind::kMatrix);
  arithmetic.own_ns += k.Of(KernelKind::kAttention).own_ns + k.Of(KernelKind::kGrouped).own_ns;
  arithmetic.peers_ns += k.Of(KernelKind::kAttention).peers_ns + k.Of(KernelKind::kGrouped).peers_ns;
  const TimeRatio& memory = k.Of(KernelKind::kMemory);
  if (k.extra.ns > kExplains * (k.extra.ns + std::max(0.0, k.all.excess_ns()))) {
    // The reason for additional work is not in the capture: one more microbatch, another shape of the data, a
    // check that only this rank makes.
    const double steps = static_cast<double>(in_.steps.count()) * static_cast<double>(rank_indices.size());
    out.evidence.push_back(absl::StrFormat(
        "runs %.3g kernels more per step than its peers, %s of them, most of it in %s; the others take %s",
        k.extra.count / steps, LengthText(k.extra.ns / steps), ShortName(in_.capture.Text(k.extra.most)),
        PercentText(k.all.ratio() - 1)));
    out.rule_share = k.extra.ns / (k.extra.ns + std::max(0.0, k.all.excess_ns()));
    return out;
  }
  const double alone = k.isolated.ratio() - 1, beside = k.overlapped.ratio() - 1;
  const double math = arithmetic.ratio() - 1, mem = memory.ratio() - 1;
  out.evidence.push_back(absl::StrFormat(
      "kernels %s (z %.0f): matrix products %s, memory-bound %s", PercentText(k.all.ratio() - 1), z,
      PercentText(k.Of(KernelKind::kMatrix).ratio() - 1), PercentText(mem)));
  const double both = std::max(0.0, k.isolated.excess_ns()) + std::max(0.0, k.overlapped.excess_ns());
  if (k.isolated.peers_ns > 0 && k.overlapped.peers_ns > 0 &&
      beside > kBesideTimes * std::max(alone, kLeastRatio) && k.overlapped.excess_ns() > kExplains * both) {
    out.cause = Cause::kContention;
    out.rule_share = both > 0 ? k.overlapped.excess_ns() / both : 0;
    out.evidence.push_back(absl::StrFormat("only beside communication and copies: %s there, %s alone",
                                           PercentText(beside), PercentText(alone)));
    return out;
  }
  if (memory.peers_ns > 0 && mem > kMemoryTimes * std::max(math, kLeastRatio) && mem > 0) {
    out.cause = Cause::kGpuMemory;
    out.rule_share = k.all.excess_ns() > 0 ? std::min(1.0, memory.excess_ns() / k.all.excess_ns()) : 0;
    return out;
  }
  if (k.slower_share >= kMostClasses || (arithmetic.peers_ns > 0 && k.slower_math_share >= kMostClasses)) {
    out.cause = Cause::kGpuClock;
    out.rule_share = std::max(k.slower_share, k.slower_math_share);
    if (k.isolated.peers_ns > 0 && k.overlapped.peers_ns > 0) {
      out.evidence.push_back(
          absl::StrFormat("alone %s as beside communication %s; %.0f%% of their time is in slower kernels",
                          PercentText(alone), PercentText(beside), 100 * out.rule_share));
    }
    return out;
  }
  out.rule_share = k.slower_share;
  out.evidence.push_back(absl::StrFormat(
      "only %.0f%% of their time is in slower kernels: neither clock nor memory", 100 * k.slower_share));
  return out;
}

CauseFinding CauseRules::OfCopies(uint32_t rank_index) const {
  CauseFinding out;
  const auto& stats = gains_.typical().stats();
  double own = 0, peers = 0;
  for (uint32_t c : gains_.typical().CellsOfRank(rank_index)) {
    if (gains_.classes().cells[c].kind != UnitKind::kCopy || !excess_.has_reference(c)) continue;
    own += stats[c].own_work * gains_.classes().cells[c].count;
    peers += excess_.ReferenceWork(c) * gains_.classes().cells[c].count;
  }
  out.cause = Cause::kCopy;
  out.rule_share = 1;
  if (peers > 0)
    out.evidence.push_back(
        absl::StrFormat("its copies take %.1fx as long as its peers' copies of the same size", own / peers));
  return out;
}

CauseFinding CauseRules::OfHost(uint32_t rank_index, const Pieces& level, const Pieces& pauses) const {
  const HostGapSummary host =
      SummarizeHostGaps(in_, gains_.graph(), gains_.classes(), gains_.typical(), rank_index, level, pauses);
  CauseFinding out;
  if (host.total_ns <= 0) return out;
  if (capture::HasOnlyCommunication(in_.capture.ranks[rank_index])) {
    out.rule_share = 1;
    out.evidence.emplace_back(
        "it comes late to its collectives; only NCCL's operations were recorded, so the reason may be its "
        "GPU or its host");
    return out;
  }
  const size_t steps = in_.steps.count();
  const bool pausing = host.pauses.ns >= kExplains * host.total_ns;
  if (host.in_calls_ns >= kExplains * host.total_ns) {
    out.cause = Cause::kHostAllocator;
    out.rule_share = host.in_calls_ns / host.total_ns;
    out.evidence.push_back(absl::StrFormat("its host spends %s per step in %s while its peers launch",
                                           LengthText(host.in_calls_ns), host.call));
    return out;
  }
  if (host.in_loader_ns >= kExplains * host.total_ns) {
    out.cause = Cause::kDataLoader;
    out.rule_share = host.in_loader_ns / host.total_ns;
    out.evidence.push_back(
        absl::StrFormat("its host is in the data loader for %s per step longer than its peers'",
                        LengthText(host.in_loader_ns)));
    return out;
  }
  if (const uint32_t period = PeriodOf(host.long_stops.steps, steps);
      pausing && period > 0 && host.long_stops.places.size() <= kCheckpointPlaces) {
    out.cause = Cause::kCheckpoint;
    out.rule_share = host.pauses.ns / host.total_ns;
    out.evidence.push_back(
        absl::StrFormat("its host stops every %d steps, up to %s", period, LengthText(host.widest_pause_ns)));
    return out;
  }
  const bool one_place = host.worst_ns >= kExplains * host.total_ns;
  if (one_place && !pausing && host.worst_opens && in_.steps.marked() &&
      host.worst_into_step_ns < (1 - kExplains) * host.worst_ns) {
    out.rule_share = host.worst_ns / host.total_ns;
    out.late = StepLateness(in_.capture, in_.clock, in_.steps)[rank_index];
    return out;
  }
  const bool often = host.long_stops.steps.size() != 1 || !pausing;
  const char* silent = host.recorded ? "its host is silent" : "its device idles";
  // Without recorded calls, the step's first work stands for the copy.
  if (one_place && often && host.worst_at_head &&
      (host.worst_copies || (!host.recorded && host.worst_opens))) {
    out.cause = Cause::kHostPause;
    out.rule_share = host.worst_ns / host.total_ns;
    out.evidence.push_back(absl::StrFormat(
        "%s for %s per step before its first launches (%s); its peers for %s", silent,
        LengthText(host.worst_ns + host.worst_peers_ns), host.worst_call, LengthText(host.worst_peers_ns)));
    out.evidence.emplace_back(
        "candidates: its input, a lock, Python code, another process on its cores; a range around the data "
        "loader or lockstep trace --python-profile tells them apart");
    return out;
  }
  if (pausing) {
    out.cause = Cause::kHostPause;
    out.rule_share = host.pauses.ns / host.total_ns;
    // If long pauses are most of it, the short ones do not count.
    const bool mostly_long = host.long_stops.ns >= kExplains * host.pauses.ns;
    const HostGapSummary::Stops& stops = mostly_long ? host.long_stops : host.pauses;
    out.evidence.push_back(absl::StrFormat(
        "its host stops for %s per step, up to %s at a time, in %d of %d steps at %d place%s, "
        "in no call that is recorded",
        LengthText(stops.ns), LengthText(host.widest_pause_ns), stops.steps.size(), steps,
        stops.places.size(), stops.places.size() == 1 ? "" : "s"));
    return out;
  }
  if (one_place) {
    out.cause = Cause::kHostPause;
    out.rule_share = host.worst_ns / host.total_ns;
    out.evidence.push_back(absl::StrFormat("%s for %s per step before %s; its peers for %s", silent,
                                           LengthText(host.worst_ns + host.worst_peers_ns), host.worst_call,
                                           LengthText(host.worst_peers_ns)));
    return out;
  }
  out.cause = Cause::kHostLaunch;
  out.rule_share = 1 - host.worst_ns / host.total_ns;
  out.evidence.push_back(absl::StrFormat("its %s %s per step longer than its peers', spread over %d places",
                                         host.recorded ? "host takes" : "device idles",
                                         LengthText(host.total_ns), host.places));
  return out;
}

CauseFinding CauseRules::OfCost(uint32_t rank_index, const RankCost& cost) const {
  CauseFinding out;
  const double total = cost.total();
  if (total <= 0 || cost.head >= kExplains * total) return out;
  if (cost.copies >= kExplains * total) return OfCopies(rank_index);
  if (cost.host >= kExplains * total) {
    const uint32_t ranks[] = {rank_index};
    return OfHost(rank_index, excess_.LevelPieces(ranks, WorkKind::kHost), excess_.PausePieces(rank_index));
  }
  if (cost.kernels >= kExplains * total) {
    const uint32_t ranks[] = {rank_index};
    return OfKernels(ranks, 0);
  }
  out.evidence.push_back(
      absl::StrFormat("no single kind of work explains it: kernels %s, host %s, copies %s per step",
                      LengthText(cost.kernels), LengthText(cost.host), LengthText(cost.copies)));
  return out;
}

}  // namespace lockstep::analysis
