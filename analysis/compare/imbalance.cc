#include "analysis/compare/imbalance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "analysis/prepare/stats.h"

namespace lockstep::analysis {
namespace {

// Neighbours share at least this relative deviation. Drifts of ranks and hosts in healthy jobs stay below it.
constexpr double kLeastSpread = 0.04;
// If only attention varies, its spread is this many times that of matrix products.
constexpr double kAttentionOnly = 2.0;
constexpr double kSharedLeast = 0.5;
constexpr double kRankShareMost = 0.5;
constexpr double kExpertsLeast = 0.05;

// ---- sequences

struct Deviation {
  uint32_t unit;
  uint32_t cell;
  double relative;  // to its own rank's median
};

// Products of the deviations of consecutive kernels, and of forward kernels with the backward ones of the
// same microbatch. If a step runs few layers of each microbatch, only the latter pairs share their data.
struct Sums {
  double square = 0, neighbours = 0, pairs = 0;
  uint64_t squares = 0, neighbour_count = 0, pair_count = 0;
  double Variance() const { return squares > 0 ? square / static_cast<double>(squares) : 0; }
  double Shared() const {
    const double near = neighbour_count > 0 ? neighbours / static_cast<double>(neighbour_count) : 0;
    const double paired = pair_count > 0 ? pairs / static_cast<double>(pair_count) : 0;
    return std::max({0.0, near, paired});
  }
};

// One rank's kernels of one kind, in time order.
std::vector<Deviation> DeviationsOf(const GraphInput& in, const Graph& graph, const Classes& classes,
                                    const TypicalValues& typical, const KernelKinds& kinds,
                                    uint32_t rank_index, KernelKind kind) {
  std::vector<Deviation> out;
  const capture::RankData& rank = in.capture.ranks[rank_index];
  for (uint32_t c : typical.CellsOfRank(rank_index)) {
    const Cell& cell = classes.cells[c];
    const double own = typical.stats()[c].own_work;
    if (cell.kind != UnitKind::kKernel || own <= 0 || cell.count < kLeastSteps) continue;
    if (kinds.Of(rank, rank.activities[graph.units[classes.units[cell.first]].source]) != kind) continue;
    for (uint32_t u : classes.UnitsOf(cell)) out.push_back({u, c, graph.work[u] / own - 1});
  }
  std::sort(out.begin(), out.end(), [](const Deviation& a, const Deviation& b) { return a.unit < b.unit; });
  return out;
}

// An outlier is an interruption, not a sequence.
double Clipped(double v) { return std::clamp(v, -1.5, 3.0); }

class SequenceFinder {
 public:
  SequenceFinder(const GraphInput& input, const Graph& graph, const Classes& classes,
                 const TypicalValues& typical, const KernelKinds& kinds)
      : in_(input), graph_(graph), classes_(classes), typical_(typical), kinds_(kinds) {}

  SequenceImbalance Run() {
    std::array<Sums, kKernelKinds> sums;
    const size_t ranks = in_.capture.ranks.size();
    for (uint32_t r = 0; r < ranks; ++r) {
      for (const KernelKind kind : {KernelKind::kAttention, KernelKind::kMatrix})
        Add(r, kind, sums[static_cast<size_t>(kind)]);
    }
    const Sums& attention = sums[static_cast<size_t>(KernelKind::kAttention)];
    const Sums& matrix = sums[static_cast<size_t>(KernelKind::kMatrix)];
    SequenceImbalance out;
    out.spread = std::sqrt(attention.Shared());
    out.shared = attention.Variance() > 0 ? attention.Shared() / attention.Variance() : 0;
    out.others_spread = std::sqrt(matrix.Shared());
    out.attention_only = out.spread > kAttentionOnly * out.others_spread;
    out.rank_share = RankShare();
    // A deviation that all kernels share is the rank's speed. Sequences affect attention more than matrix
    // products.
    const bool more_than_others = out.spread > 1.3 * out.others_spread;
    out.found = out.spread >= kLeastSpread && out.shared >= kSharedLeast && more_than_others &&
                out.rank_share <= kRankShareMost && ranks > 1;
    if (out.found) MakePieces(out);
    return out;
  }

 private:
  void Add(uint32_t r, KernelKind kind, Sums& sums) {
    const std::vector<Deviation> list = DeviationsOf(in_, graph_, classes_, typical_, kinds_, r, kind);
    for (size_t i = 0; i < list.size(); ++i) {
      const double own = Clipped(list[i].relative);
      sums.square += own * own;
      ++sums.squares;
      if (kind == KernelKind::kAttention) {
        auto& steps = by_rank_[r];
        steps.resize(in_.steps.count());
        steps[static_cast<size_t>(graph_.units[list[i].unit].step)] +=
            own / static_cast<double>(std::max<size_t>(1, list.size() / in_.steps.count()));
      }
      if (i + 1 == list.size() || graph_.units[list[i].unit].step != graph_.units[list[i + 1].unit].step)
        continue;
      sums.neighbours += own * Clipped(list[i + 1].relative);
      ++sums.neighbour_count;
    }
    AddPairs(r, list, sums);
  }

  // If a step has two kernels that run equally often, pairs the i-th of one with the i-th of the other.
  void AddPairs(uint32_t r, const std::vector<Deviation>& list, Sums& sums) const {
    const capture::RankData& rank = in_.capture.ranks[r];
    for (size_t begin = 0; begin < list.size();) {
      size_t end = begin;
      std::map<uint32_t, std::vector<double>> by_name;
      const int32_t step = graph_.units[list[begin].unit].step;
      for (; end < list.size() && graph_.units[list[end].unit].step == step; ++end) {
        by_name[rank.activities[graph_.units[list[end].unit].source].name.value()].push_back(
            Clipped(list[end].relative));
      }
      begin = end;
      if (by_name.size() != 2) continue;
      const auto& one = by_name.begin()->second;
      const auto& other = std::next(by_name.begin())->second;
      if (one.size() != other.size()) continue;
      for (size_t i = 0; i < one.size(); ++i) sums.pairs += one[i] * other[i];
      sums.pair_count += one.size();
    }
  }

  // Deviations are relative to the rank's own median, so a part that stays with a rank shows as runs of
  // steps. The share is the variance of the means of the window's halves over that of the steps.
  double RankShare() const {
    double steps_square = 0, halves_square = 0;
    for (const auto& [rank, steps] : by_rank_) {
      const size_t half = steps.size() / 2;
      if (half < 2) return 0;
      const double first =
          std::accumulate(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(half), 0.0) /
          static_cast<double>(half);
      const double second =
          std::accumulate(steps.begin() + static_cast<std::ptrdiff_t>(half), steps.end(), 0.0) /
          static_cast<double>(steps.size() - half);
      halves_square += (first - second) * (first - second) / 4;
      const double mean = (first + second) / 2;
      for (double s : steps) steps_square += (s - mean) * (s - mean) / static_cast<double>(steps.size());
    }
    return steps_square > 0 ? halves_square / steps_square : 0;
  }

  // Attention follows the sequences. A piece is a kernel's deviation from its rank's mean.
  void MakePieces(SequenceImbalance& out) const {
    for (uint32_t r = 0; r < in_.capture.ranks.size(); ++r) {
      const std::vector<Deviation> list =
          DeviationsOf(in_, graph_, classes_, typical_, kinds_, r, KernelKind::kAttention);
      double mean = 0;
      for (const Deviation& d : list) mean += Clipped(d.relative) / static_cast<double>(list.size());
      for (const Deviation& d : list) {
        const double own = typical_.stats()[d.cell].own_work;
        out.pieces.push_back({EndOf(d.unit), (Clipped(d.relative) - mean) * own});
      }
    }
  }

  const GraphInput& in_;
  const Graph& graph_;
  const Classes& classes_;
  const TypicalValues& typical_;
  const KernelKinds& kinds_;
  std::map<uint32_t, std::vector<double>> by_rank_;  // mean deviation of its attention kernels by step
};

// ---- experts

struct Routed {
  std::vector<uint32_t> units;
  std::vector<double> bytes;  // received in the exchange before each unit; negative: unknown
  std::vector<std::pair<size_t, size_t>> places;  // exchanges of the step so far, kernels since the last one
  double per_step = 0;
};

// The kernels of experts: grouped products; or, in a job without any, the matrix products after every second
// exchange. The first of two exchanges sends the tokens to the experts, and the second one sends them back.
struct ExpertKernels {
  KernelKind kind = KernelKind::kGrouped;
  std::optional<size_t> after;  // 0: after the first of two exchanges in the step; 1: after the second
};

double ReceivedBytes(const capture::Collective& c) {
  return static_cast<double>(c.received_bytes >= 0 ? c.received_bytes : c.bytes);
}

double Correlation(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.size() < 4) return 0;
  const auto n = static_cast<double>(x.size());
  const double mx = std::accumulate(x.begin(), x.end(), 0.0) / n,
               my = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
    xy += (x[i] - mx) * (y[i] - my);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

bool IsExchange(capture::CollectiveOp op) {
  return op == capture::CollectiveOp::kAllToAll || op == capture::CollectiveOp::kAllToAllV ||
         op == capture::CollectiveOp::kSendReceive;
}

Routed RoutedTo(const GraphInput& in, const Graph& graph, const KernelKinds& kinds,
                const ExpertKernels& experts, uint32_t rank_index, uint32_t first, uint32_t last) {
  Routed out;
  size_t exchanges = 0, since = 0;  // of this step so far; kernels since the last one
  int32_t step = kBeforeSteps;
  const capture::RankData& rank = in.capture.ranks[rank_index];
  double bytes = -1;
  for (uint32_t u = first; u < last; ++u) {
    const Unit& unit = graph.units[u];
    if (unit.kind != UnitKind::kKernel && unit.kind != UnitKind::kTransfer) continue;
    if (unit.step != step) exchanges = since = 0;
    step = unit.step;
    const capture::DeviceActivity& a = rank.activities[unit.source];
    if (unit.kind == UnitKind::kTransfer) {
      if (a.collective < rank.collectives.size() && IsExchange(rank.collectives[a.collective].op)) {
        bytes = ReceivedBytes(rank.collectives[a.collective]);
        ++exchanges;
        since = 0;
      }
      continue;
    }
    if (unit.step < 0 || kinds.Of(rank, a) != experts.kind) continue;
    if (experts.after && (exchanges == 0 || (exchanges - 1) % 2 != *experts.after)) continue;
    out.units.push_back(u);
    out.bytes.push_back(bytes);
    out.places.emplace_back(exchanges, since++);
    out.per_step += graph.work[u] / static_cast<double>(in.steps.count());
  }
  return out;
}

// An uneven exchange lasts as long as its busiest member needs to receive. Appends the time that equal bytes
// for all members would save. No member gets slower.
void AppendUnevenExchanges(const GraphInput& in, const Graph& graph, std::span<const uint32_t> unit_of_member,
                           const capture::Instance& instance, Pieces& pieces) {
  double mean = 0, most = 0, longest = 0;
  for (size_t m = 0; m < instance.members.size(); ++m) {
    const capture::Member& member = instance.members[m];
    const capture::Collective& c = in.capture.ranks[member.rank_index].collectives[member.collective];
    const double bytes = std::max(static_cast<double>(c.bytes), ReceivedBytes(c));
    if (bytes <= 0 || unit_of_member[m] == capture::kNone) return;
    mean += bytes / static_cast<double>(instance.members.size());
    if (bytes <= most) continue;
    most = bytes;
    longest = graph.work[unit_of_member[m]];
  }
  if (most <= (1 + kExpertsLeast) * mean) return;
  const double even = longest * mean / most;
  for (const uint32_t u : unit_of_member) {
    if (graph.work[u] > even) pieces.push_back({EndOf(u), graph.work[u] - even});
  }
}

Pieces UnevenExchanges(const GraphInput& in, const Graph& graph) {
  Pieces pieces;
  std::map<uint32_t, std::vector<uint32_t>> units;  // of all-to-alls, by instance and member
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    const Unit& unit = graph.units[u];
    if (unit.kind != UnitKind::kTransfer || unit.step < 0 || unit.instance == capture::kNone) continue;
    const capture::Instance& instance = in.matches.instances[unit.instance];
    if ((instance.op != capture::CollectiveOp::kAllToAllV &&
         instance.op != capture::CollectiveOp::kAllToAll) ||
        !instance.complete)
      continue;
    std::vector<uint32_t>& of =
        units.try_emplace(unit.instance, instance.members.size(), capture::kNone).first->second;
    for (size_t m = 0; m < of.size(); ++m) {
      if (instance.members[m].rank_index == unit.rank_index) of[m] = u;
    }
  }
  for (const auto& [n, of] : units) AppendUnevenExchanges(in, graph, of, in.matches.instances[n], pieces);
  return pieces;
}

}  // namespace

SequenceImbalance FindSequenceImbalance(const GraphInput& input, const Graph& graph, const Classes& classes,
                                        const TypicalValues& typical, const KernelKinds& kinds) {
  return SequenceFinder(input, graph, classes, typical, kinds).Run();
}

namespace {

ExpertImbalance Measure(const GraphInput& input, const Graph& graph, const KernelKinds& kinds,
                        const ExpertKernels& experts) {
  ExpertImbalance out;
  const auto ranks = static_cast<uint32_t>(input.capture.ranks.size());
  std::vector<Routed> routed(ranks);
  for (uint32_t u = 0; u < graph.units.size();) {
    const uint32_t first = u, rank = graph.units[u].rank_index;
    while (u < graph.units.size() && graph.units[u].rank_index == rank) ++u;
    routed[rank] = RoutedTo(input, graph, kinds, experts, rank, first, u);
  }
  // All ranks with such kernels are peers.
  std::vector<uint32_t> with;
  for (uint32_t r = 0; r < ranks; ++r) {
    if (!routed[r].units.empty()) with.push_back(r);
  }
  if (with.size() < 2) return out;
  double mean = 0, most = 0;
  for (uint32_t r : with) {
    mean += routed[r].per_step / static_cast<double>(with.size());
    most = std::max(most, routed[r].per_step);
  }
  // Kernels at one place of the step do the same for all ranks, but for the bytes.
  std::map<std::pair<size_t, size_t>, std::pair<double, double>> usual;  // sum and number of times
  for (uint32_t r : with) {
    for (size_t i = 0; i < routed[r].units.size(); ++i) {
      auto& [sum, number] = usual[routed[r].places[i]];
      sum += graph.work[routed[r].units[i]];
      ++number;
    }
  }
  std::vector<double> times, bytes;
  for (uint32_t r : with) {
    for (size_t i = 0; i < routed[r].units.size(); ++i) {
      const auto& [sum, number] = usual[routed[r].places[i]];
      if (routed[r].bytes[i] <= 0 || sum <= 0) continue;
      times.push_back(graph.work[routed[r].units[i]] * number / sum);
      bytes.push_back(routed[r].bytes[i]);
    }
  }
  out.bytes_correlation = Correlation(times, bytes);
  out.busiest = mean > 0 ? most / mean : 1;
  out.spread = out.busiest - 1;
  out.found = out.spread >= kExpertsLeast;
  if (!out.found) return out;
  for (uint32_t r : with) {
    const double share = 1 - mean / routed[r].per_step;
    if (share > kExpertsLeast / 2) out.rank_indices.push_back(r);
    for (uint32_t u : routed[r].units) out.pieces.push_back({EndOf(u), graph.work[u] * share});
  }
  std::stable_sort(out.rank_indices.begin(), out.rank_indices.end(),
                   [&](uint32_t a, uint32_t b) { return routed[a].per_step > routed[b].per_step; });
  return out;
}

}  // namespace

ExpertImbalance FindExpertImbalance(const GraphInput& input, const Graph& graph, const KernelKinds& kinds) {
  ExpertImbalance out = Measure(input, graph, kinds, {});
  out.are_grouped = out.found;
  // Experts without grouped kernels are recognised by times that follow the bytes.
  for (size_t after = 0; after < 2 && !out.found; ++after) {
    ExpertImbalance by_time = Measure(input, graph, kinds, {KernelKind::kMatrix, after});
    if (by_time.found && by_time.bytes_correlation > kFollowsBytes) out = std::move(by_time);
  }
  if (out.found) out.exchanges = UnevenExchanges(input, graph);
  return out;
}

}  // namespace lockstep::analysis
