#include "analysis/compare/host_gaps.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/time/step_breakdown.h"

namespace lockstep::analysis {
namespace {

// The head of a step is this many of its first host calls.
constexpr uint32_t kHeadCalls = 8;
// This many letters of a kernel's name identify it.
constexpr size_t kMostOfName = 40;
// Only pauses of at least this length are counted one by one.
constexpr double kLongStopNs = 2e6;

class HostGapSummarizer {
 public:
  HostGapSummarizer(const GraphInput& input, const Graph& graph, const Classes& classes,
                    const TypicalValues& typical, uint32_t rank_index)
      : in_(input),
        graph_(graph),
        classes_(classes),
        typical_(typical),
        rank_(input.capture.ranks[rank_index]),
        rank_index_(rank_index) {
    for (uint32_t c : typical.CellsOfRank(rank_index)) {
      const Cell& cell = classes.cells[c];
      if (!HasLag(cell.kind)) continue;
      for (uint32_t u : classes.UnitsOf(cell)) cell_of_[u] = c;
    }
    for (const HostInterval& loads : LoaderTimes(input.capture, rank_))
      loader_.emplace_back(At(loads.start), At(loads.end));
  }

  HostGapSummary Run(const Pieces& level, const Pieces& pauses) {
    for (const Piece& p : level) Add(p, false);
    for (const Piece& p : pauses) Add(p, true);
    FindWorst();
    for (HostGapSummary::Stops* stops : {&out_.pauses, &out_.long_stops}) {
      for (std::vector<uint32_t>* list : {&stops->steps, &stops->places}) {
        std::sort(list->begin(), list->end());
        list->erase(std::unique(list->begin(), list->end()), list->end());
      }
    }
    double most = 0;
    for (const auto& [name, ns] : in_calls_) {
      out_.in_calls_ns += ns;
      if (ns <= most) continue;
      most = ns;
      out_.call = std::string(in_.capture.Text(NameId(name)));
    }
    return std::move(out_);
  }

 private:
  double PerStep(double ns) const { return ns / static_cast<double>(in_.steps.count()); }
  const capture::ApiCall& Call(uint32_t unit) const { return rank_.api_calls[graph_.units[unit].source]; }

  void Add(const Piece& p, bool pause) {
    const uint32_t u = UnitOf(p.node);
    const auto cell = cell_of_.find(u);
    if (cell == cell_of_.end()) return;
    by_cell_[cell->second] += p.ns;
    out_.total_ns += PerStep(p.ns);
    if (pause) {
      out_.widest_pause_ns = std::max(out_.widest_pause_ns, p.ns);
      AddStop(p, cell->second, out_.pauses);
      if (p.ns >= kLongStopNs) AddStop(p, cell->second, out_.long_stops);
    }
    if (p.ns <= 0 || p.node != StartOf(u)) return;
    if (IsHostUnit(graph_.units[u].kind)) AddCallsInside(u, p.ns);
    out_.in_loader_ns += PerStep(std::min(p.ns, InLoader(graph_.start[u] - graph_.lag[u], graph_.start[u])));
  }

  void AddStop(const Piece& p, uint32_t cell, HostGapSummary::Stops& stops) const {
    stops.steps.push_back(static_cast<uint32_t>(graph_.units[UnitOf(p.node)].step));
    stops.places.push_back(cell);
    stops.ns += PerStep(p.ns);
  }

  // Adds the calls in the gap before a unit that can block a thread.
  void AddCallsInside(uint32_t unit, double most) {
    const double gap_start = graph_.start[unit] - graph_.lag[unit];
    const ThreadId thread = Call(unit).thread;
    double left = most;
    for (uint32_t i = graph_.units[unit].source; i > 0 && left > 0; --i) {
      const capture::ApiCall& call = rank_.api_calls[i - 1];
      if (call.thread != thread) continue;
      const double start = At(call.start), end = At(call.end);
      if (end <= gap_start) break;
      const CallRole role = in_.names->Of(call.name);
      if (role != CallRole::kAllocates && role != CallRole::kSynchronizes) continue;
      const double inside = std::min({left, end - std::max(start, gap_start)});
      in_calls_[call.name.value()] += PerStep(inside);
      left -= inside;
    }
  }

  // Returns the time of the interval that the host spends in the data loader.
  double InLoader(double start, double end) const {
    double inside = 0;
    auto i = std::partition_point(loader_.begin(), loader_.end(),
                                  [start](const auto& l) { return l.second <= start; });
    for (; i != loader_.end() && i->first < end; ++i)
      inside += std::min(end, i->second) - std::max(start, i->first);
    return inside;
  }

  double At(HostTime t) const {
    return static_cast<double>((in_.clock.ToJob(rank_.host, t) - graph_.origin).ns());
  }

  std::string NameOf(uint32_t unit) const {
    const bool host = IsHostUnit(graph_.units[unit].kind);
    const std::string_view name =
        in_.capture.Text(host ? Call(unit).name : rank_.activities[graph_.units[unit].source].name);
    return name.empty() ? (host ? "a host call" : "a kernel") : std::string(name.substr(0, kMostOfName));
  }

  void FindWorst() {
    uint32_t worst = capture::kNone;
    for (const auto& [cell, ns] : by_cell_) {
      if (ns > 0) ++out_.places;
      if (worst == capture::kNone || ns > by_cell_[worst]) worst = cell;
    }
    if (worst == capture::kNone || by_cell_[worst] <= 0) return;
    const uint32_t unit = classes_.units[classes_.cells[worst].first];
    out_.worst_ns = PerStep(by_cell_[worst]);
    out_.worst_peers_ns = PerStep(typical_.stats()[worst].peer_lag * classes_.cells[worst].count);
    out_.worst_call = NameOf(unit);
    uint32_t first = unit;
    while (first > 0 && graph_.units[first - 1].rank_index == rank_index_ &&
           graph_.units[first - 1].step == graph_.units[unit].step)
      --first;
    out_.worst_opens = first == unit;
    out_.worst_at_head = unit - first < kHeadCalls;
    out_.recorded = IsHostUnit(graph_.units[unit].kind);
    out_.worst_copies = out_.recorded ? in_.names->Of(Call(unit).name) == CallRole::kCopies
                                      : graph_.units[unit].kind == UnitKind::kCopy;
    if (graph_.units[unit].step >= 0) {
      const RankStep& step = in_.steps.ranks[rank_index_].steps[static_cast<size_t>(graph_.units[unit].step)];
      out_.worst_into_step_ns = graph_.start[unit] - At(step.host.start);
    }
  }

  const GraphInput& in_;
  const Graph& graph_;
  const Classes& classes_;
  const TypicalValues& typical_;
  const capture::RankData& rank_;
  uint32_t rank_index_;
  absl::flat_hash_map<uint32_t, uint32_t> cell_of_;  // by unit
  // Ordered, so that sums and ties are the same in every run.
  std::map<uint32_t, double> by_cell_;
  std::map<uint32_t, double> in_calls_;            // by name
  std::vector<std::pair<double, double>> loader_;  // disjoint, in order
  HostGapSummary out_;
};

}  // namespace

HostGapSummary SummarizeHostGaps(const GraphInput& input, const Graph& graph, const Classes& classes,
                                 const TypicalValues& typical, uint32_t rank_index, const Pieces& level,
                                 const Pieces& pauses) {
  return HostGapSummarizer(input, graph, classes, typical, rank_index).Run(level, pauses);
}

uint32_t PeriodOf(const std::vector<uint32_t>& steps, size_t step_count) {
  if (steps.size() < 2) return 0;
  const uint32_t period = steps[1] - steps[0];
  if (period < 2) return 0;
  for (size_t i = 2; i < steps.size(); ++i) {
    if (steps[i] - steps[i - 1] != period) return 0;
  }
  // The rhythm must cover the whole window.
  if (steps.front() >= period || steps.back() + period < step_count) return 0;
  return steps.size() >= 3 || step_count < 3 * size_t{period} ? period : 0;
}

}  // namespace lockstep::analysis
