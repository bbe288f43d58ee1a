#include "aggregator/analysis/causes.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace lockstep::analysis {
namespace {

using store::kNone;

// A rule holds when it explains this much of what the rank costs.
constexpr double kExplains = 0.6;
constexpr double kMostClasses = 0.8;
constexpr double kSlower = 1.01;
// The head of a step is its first host calls.
constexpr uint32_t kHeadCalls = 8;

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

CauseRules::KernelRatio CauseRules::Compare(uint32_t rank_index, UnitKind kind) const {
  KernelRatio out;
  double own = 0, peers = 0, slower = 0;
  for (uint32_t c : typical_.CellsOfRank(rank_index)) {
    const Cell& cell = classes_.cells[c];
    const CellStats& s = typical_.stats()[c];
    if (cell.kind != kind || !s.has_peers) continue;
    ++out.classes;
    own += s.own_work * cell.count;
    peers += s.peer_work * cell.count;
    if (s.own_work > kSlower * s.peer_work) slower += s.own_work * cell.count;
  }
  if (peers > 0) out.ratio = own / peers;
  if (own > 0) out.classes_slower = slower / own;
  return out;
}

CauseRules::KernelRatio CauseRules::Kernels(uint32_t rank_index) const { return Compare(rank_index, UnitKind::kKernel); }

CauseFinding CauseRules::Of(uint32_t rank_index, const RankCost& cost) const {
  const double total = cost.total();
  if (total <= 0) return {};
  if (cost.head >= kExplains * total) return {};
  if (cost.copies >= kExplains * total) return OfCopies(rank_index);
  if (cost.host >= kExplains * total) return OfHost(rank_index);
  if (cost.kernels >= kExplains * total) return OfKernels(rank_index);
  CauseFinding mixed;
  mixed.evidence.push_back(absl::StrFormat("no single kind of work explains it: kernels %s, host %s, copies %s per step",
                                           LengthText(cost.kernels), LengthText(cost.host), LengthText(cost.copies)));
  return mixed;
}

CauseFinding CauseRules::OfKernels(uint32_t rank_index) const {
  CauseFinding out;
  const KernelRatio k = Kernels(rank_index);
  out.evidence.push_back(absl::StrFormat("its kernels take %.2fx as long as its peers' (%.0f%% of their time in slower classes, %d classes)",
                                         k.ratio, 100 * k.classes_slower, k.classes));
  if (k.ratio > kSlower && k.classes_slower >= kMostClasses) out.cause = Cause::kGpuClock;
  return out;
}

CauseFinding CauseRules::OfCopies(uint32_t rank_index) const {
  CauseFinding out;
  const KernelRatio c = Compare(rank_index, UnitKind::kCopy);
  out.cause = Cause::kCopy;
  out.evidence.push_back(absl::StrFormat("its copies take %.1fx as long as its peers' copies of the same size", c.ratio));
  return out;
}

std::string CauseRules::CallName(uint32_t unit) const {
  const store::ApiCall& call = in_.capture.ranks[graph_.units[unit].rank_index].api_calls[graph_.units[unit].source];
  const std::string_view name = in_.capture.Text(call.name);
  return name.empty() ? "a host call" : std::string(name);
}

bool CauseRules::LaunchesCopy(uint32_t unit) const {
  const store::ApiCall& call = in_.capture.ranks[graph_.units[unit].rank_index].api_calls[graph_.units[unit].source];
  return in_.names->Of(call.name) == CallRole::kCopies;
}

// Where in the step the host loses the time: at one place or everywhere.
CauseFinding CauseRules::OfHost(uint32_t rank_index) const {
  struct Place {
    double excess;
    double peers;
    uint32_t cell;
  };
  std::vector<Place> places;
  double total = 0;
  int longer = 0;
  double irregular = 0;  // beyond the medians: pauses at changing places
  const auto steps = static_cast<double>(in_.steps.count());
  for (uint32_t c : typical_.CellsOfRank(rank_index)) {
    const Cell& cell = classes_.cells[c];
    if (cell.kind != UnitKind::kHostCall && cell.kind != UnitKind::kHostWait) continue;
    const CellStats& s = typical_.stats()[c];
    const double excess = (s.own_lead - s.peer_lead) + (s.own_work - s.peer_work);
    if (excess > 0) {
      total += excess * cell.count / steps;
      ++longer;
    }
    places.push_back({excess * cell.count / steps, s.peer_lead, c});
    for (uint32_t u : classes_.UnitsOf(cell)) {
      if (!graph_.units[u].is_head) irregular += std::max(0.0, graph_.lead[u] - s.own_lead) / steps;
    }
  }
  CauseFinding out;
  if (places.empty()) return out;
  const Place& worst = *std::max_element(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.excess < b.excess; });
  const uint32_t unit = classes_.units[classes_.cells[worst.cell].first];
  if (irregular > 2 * total) {
    out.cause = Cause::kHostPause;
    out.evidence.push_back(absl::StrFormat("its host pauses at changing places, %s per step in all", LengthText(irregular)));
    return out;
  }
  if (worst.excess < kExplains * total) {
    out.cause = Cause::kHostLaunch;
    out.evidence.push_back(absl::StrFormat("its host takes %s per step longer than its peers', spread over %d places", LengthText(total),
                                           longer));
    return out;
  }
  // One place. Is the time inside the step, and what was the host doing?
  const uint32_t rank = graph_.units[unit].rank_index;
  uint32_t first_of_step = unit;
  while (first_of_step > 0 && graph_.units[first_of_step - 1].rank_index == rank &&
         graph_.units[first_of_step - 1].step == graph_.units[unit].step) {
    --first_of_step;
  }
  const bool at_head = unit - first_of_step < kHeadCalls;
  const auto step = static_cast<size_t>(std::max(0, graph_.units[unit].step));
  const JobTime begin = in_.clock.ToJob(in_.capture.ranks[rank].host, in_.steps.ranks[rank].steps[step].host.start);
  const double into_step = graph_.start[unit] - static_cast<double>((begin - graph_.origin).ns());
  if (unit == first_of_step && in_.steps.marked() && into_step < (1 - kExplains) * worst.excess) {
    out.late = StepLateness(in_.capture, in_.clock, in_.steps)[rank];
    return out;
  }
  out.cause = at_head && LaunchesCopy(unit) ? Cause::kDataLoader : Cause::kHostPause;
  out.evidence.push_back(absl::StrFormat("its host is silent for %s per step before %s%s; its peers for %s", LengthText(worst.excess + worst.peers),
                                         CallName(unit), at_head ? " at the head of the step" : "", LengthText(worst.peers)));
  return out;
}

}  // namespace lockstep::analysis
