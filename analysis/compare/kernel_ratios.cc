#include "analysis/compare/kernel_ratios.h"

#include <algorithm>
#include <map>

#include "analysis/prepare/stats.h"

namespace lockstep::analysis {
namespace {

// A class is slower if it takes this much longer, or half as much longer as all classes together.
constexpr double kSlower = 0.01;
constexpr double kHalf = 0.5;

struct Span {
  double start, end;
};

// The intervals of the rank's communication and copies: sorted, disjoint.
std::vector<Span> BusyBeside(const Graph& graph, std::span<const uint32_t> cells, const Classes& classes,
                             uint32_t rank_index) {
  uint32_t first = capture::kNone, last = 0;
  for (uint32_t c : cells) {
    for (uint32_t u : classes.UnitsOf(classes.cells[c])) {
      first = std::min(first, u);
      last = std::max(last, u);
    }
  }
  std::vector<Span> spans;
  if (first == capture::kNone) return spans;
  while (first > 0 && graph.units[first - 1].rank_index == rank_index) --first;
  for (uint32_t u = first; u < graph.units.size() && graph.units[u].rank_index == rank_index; ++u) {
    const UnitKind kind = graph.units[u].kind;
    if (kind == UnitKind::kTransfer || kind == UnitKind::kCopy)
      spans.push_back({graph.start[u], graph.end[u]});
  }
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.start < b.start; });
  size_t kept = 0;
  for (const Span& s : spans) {
    if (kept > 0 && s.start <= spans[kept - 1].end) {
      spans[kept - 1].end = std::max(spans[kept - 1].end, s.end);
    } else {
      spans[kept++] = s;
    }
  }
  spans.resize(kept);
  return spans;
}

double Covered(const std::vector<Span>& spans, double start, double end) {
  auto at =
      std::upper_bound(spans.begin(), spans.end(), start, [](double t, const Span& s) { return t < s.end; });
  double sum = 0;
  for (; at != spans.end() && at->start < end; ++at)
    sum += std::min(end, at->end) - std::max(start, at->start);
  return sum;
}

class Comparer {
 public:
  Comparer(const GraphInput& input, const Graph& graph, const Classes& classes, const TypicalValues& typical,
           const Excess& excess, const KernelKinds& kinds)
      : in_(input), graph_(graph), classes_(classes), typical_(typical), excess_(excess), kinds_(kinds) {}

  void Add(uint32_t rank_index) {
    const auto cells = typical_.CellsOfRank(rank_index);
    const std::vector<Span> busy = BusyBeside(graph_, cells, classes_, rank_index);
    const Regime& regime = excess_.OfRank(rank_index, WorkKind::kKernels).regime;
    for (uint32_t c : cells) {
      const Cell& cell = classes_.cells[c];
      if (cell.kind == UnitKind::kKernel && classes_.extra_work[cell.class_index] != 0)
        AddExtra(cell, in_.capture.ranks[rank_index]);
      if (cell.kind != UnitKind::kKernel || !excess_.has_reference(c) || excess_.ReferenceWork(c) <= 0)
        continue;
      const double peers = excess_.ReferenceWork(c);
      works_.clear();
      for (uint32_t u : classes_.UnitsOf(cell)) {
        if (regime.split() && !regime.SlowAt(static_cast<size_t>(graph_.units[u].step))) continue;
        works_.push_back(graph_.work[u]);
        const double covered =
            Covered(busy, graph_.start[u], graph_.end[u]) / std::max(1.0, graph_.end[u] - graph_.start[u]);
        if (covered < 0.1) AddTime(out_.isolated, graph_.work[u], peers, 1);
        if (covered > 0.5) AddTime(out_.overlapped, graph_.work[u], peers, 1);
      }
      if (works_.empty()) continue;
      const auto count = static_cast<double>(works_.size());
      const double own = MedianInPlace(std::span(works_));
      const Unit& unit = graph_.units[classes_.units[cell.first]];
      const capture::RankData& rank = in_.capture.ranks[rank_index];
      const KernelKind kind = kinds_.Of(rank, rank.activities[unit.source]);
      AddTime(out_.by_kind[static_cast<size_t>(kind)], own, peers, count);
      AddTime(out_.all, own, peers, count);
      seen_.push_back({own / peers - 1, own * count, kind != KernelKind::kMemory});
    }
  }

  KernelRatios Take() {
    const double limit = std::min(kSlower, kHalf * (out_.all.ratio() - 1));
    double slower = 0, slower_math = 0, math = 0;
    for (const Seen& s : seen_) {
      const bool is_slower = s.excess > limit && s.excess > 0;
      slower += is_slower ? s.time : 0;
      slower_math += is_slower && s.math ? s.time : 0;
      math += s.math ? s.time : 0;
    }
    if (out_.all.own_ns > 0) out_.slower_share = slower / out_.all.own_ns;
    if (math > 0) out_.slower_math_share = slower_math / math;
    const auto most = std::max_element(extra_.begin(), extra_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != extra_.end()) out_.extra.most = NameId(most->first);
    return out_;
  }

 private:
  static void AddTime(TimeRatio& to, double own, double peers, double count) {
    to.own_ns += own * count;
    to.peers_ns += peers * count;
    ++to.classes;
  }

  void AddExtra(const Cell& cell, const capture::RankData& rank) {
    for (uint32_t u : classes_.UnitsOf(cell)) {
      out_.extra.ns += graph_.work[u];
      extra_[rank.activities[graph_.units[u].source].name.value()] += graph_.work[u];
    }
    out_.extra.count += cell.count;
  }

  const GraphInput& in_;
  const Graph& graph_;
  const Classes& classes_;
  const TypicalValues& typical_;
  const Excess& excess_;
  const KernelKinds& kinds_;
  std::map<uint32_t, double> extra_;  // nanoseconds by name
  struct Seen {
    double excess;  // relative
    double time;
    bool math;
  };
  std::vector<double> works_;
  std::vector<Seen> seen_;
  KernelRatios out_;
};

}  // namespace

KernelRatios CompareKernels(const GraphInput& input, const Graph& graph, const Classes& classes,
                            const TypicalValues& typical, const Excess& excess, const KernelKinds& kinds,
                            std::span<const uint32_t> rank_indices) {
  Comparer comparer(input, graph, classes, typical, excess, kinds);
  for (uint32_t r : rank_indices) comparer.Add(r);
  return comparer.Take();
}

}  // namespace lockstep::analysis
