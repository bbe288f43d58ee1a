#include "analysis/compare/extra_work.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace lockstep::analysis {
namespace {

// Of fewer nobody can say who is the odd one.
constexpr size_t kLeastRanks = 3;
// What a rank runs fewer of may be this part of what it runs more of.
constexpr double kOtherwise = 0.1;
// Of many peers so many are asked what is usual.
constexpr size_t kMostAsked = 32;

// The value that two thirds of them have.
std::optional<uint32_t> Usual(std::vector<uint32_t>& values) {
  if (values.size() < kLeastRanks) return std::nullopt;
  std::sort(values.begin(), values.end());
  // A value of two thirds covers the middle one.
  const uint32_t middle = values[values.size() / 2];
  const auto [first, last] = std::equal_range(values.begin(), values.end(), middle);
  return 3 * (last - first) >= 2 * static_cast<ptrdiff_t>(values.size()) ? std::optional(middle)
                                                                         : std::nullopt;
}

class Finder {
 public:
  using Key = std::tuple<uint32_t, uint32_t, uint64_t>;  // rank index, step, token
  using Found = absl::flat_hash_map<Key, uint32_t>;

  Finder(const Graph& graph, std::span<const uint64_t> tokens, size_t steps)
      : graph_(graph),
        tokens_(tokens),
        steps_(steps),
        ranks_(static_cast<uint32_t>(graph.rank_begin.empty() ? 0 : graph.rank_begin.size() - 1)),
        kernels_(ranks_ * steps, 0) {
    for (const Unit& unit : graph.units) {
      if (unit.kind == UnitKind::kKernel && unit.step >= 0)
        ++kernels_[At(unit.rank_index, static_cast<size_t>(unit.step))];
    }
  }

  void LookAmong(std::span<const uint32_t> peers, Found& found) const {
    const std::vector<std::optional<uint32_t>> usual = UsualNumbers(peers);
    std::vector<uint32_t> ordinary;
    std::vector<std::pair<uint32_t, double>> busier;
    for (uint32_t r : peers) {
      const double more = MoreThanUsual(r, usual);
      if (more > 0) busier.emplace_back(r, more);
      if (more <= 0) ordinary.push_back(r);
    }
    if (busier.empty()) return;
    std::vector<std::vector<Counts>> others;
    const size_t stride = (ordinary.size() + kMostAsked - 1) / kMostAsked;
    for (size_t i = 0; i < ordinary.size(); i += stride) others.push_back(CountTokens(ordinary[i]));
    for (const auto& [rank, more] : busier) Compare(rank, more, others, usual, found);
  }

 private:
  using Counts = absl::flat_hash_map<uint64_t, uint32_t>;

  size_t At(uint32_t rank, size_t step) const { return rank * steps_ + step; }

  // By step: the number of kernels.
  std::vector<std::optional<uint32_t>> UsualNumbers(std::span<const uint32_t> peers) const {
    std::vector<std::optional<uint32_t>> usual(steps_);
    std::vector<uint32_t> numbers;
    for (size_t s = 0; s < steps_; ++s) {
      numbers.clear();
      for (uint32_t r : peers) numbers.push_back(kernels_[At(r, s)]);
      usual[s] = Usual(numbers);
    }
    return usual;
  }

  // Kernels beyond the usual number, summed over steps; 0 where there are as often fewer.
  double MoreThanUsual(uint32_t r, const std::vector<std::optional<uint32_t>>& usual) const {
    double more = 0, fewer = 0;
    for (size_t s = 0; s < steps_; ++s) {
      if (!usual[s]) continue;
      const double difference = static_cast<double>(kernels_[At(r, s)]) - *usual[s];
      (difference > 0 ? more : fewer) += std::abs(difference);
    }
    return fewer <= kOtherwise * more ? more : 0;
  }

  // By step: how often each token; transfers left out, which no rank makes alone.
  std::vector<Counts> CountTokens(uint32_t r) const {
    std::vector<Counts> counts(steps_);
    for (uint32_t u = graph_.rank_begin[r]; u < graph_.rank_begin[r + 1]; ++u) {
      const Unit& unit = graph_.units[u];
      if (unit.kind != UnitKind::kTransfer && unit.step >= 0)
        ++counts[static_cast<size_t>(unit.step)][tokens_[u]];
    }
    return counts;
  }

  void Compare(uint32_t r, double more, const std::vector<std::vector<Counts>>& others,
               const std::vector<std::optional<uint32_t>>& usual, Found& found) const {
    const std::vector<Counts> own = CountTokens(r);
    const absl::flat_hash_map<uint64_t, UnitKind> kinds = KindsOf(r);
    std::vector<std::pair<Key, uint32_t>> surplus;
    std::vector<uint32_t> numbers;
    double same = 0;
    for (uint32_t s = 0; s < steps_; ++s) {
      if (!usual[s] || kernels_[At(r, s)] <= *usual[s]) continue;
      for (const auto& [token, count] : own[s]) {
        numbers.clear();
        for (const std::vector<Counts>& other : others) {
          const auto has = other[s].find(token);
          numbers.push_back(has == other[s].end() ? 0 : has->second);
        }
        const std::optional<uint32_t> agreed = Usual(numbers);
        // What nobody else runs may be this rank's way of doing what the others do otherwise.
        if (!agreed || *agreed == 0 || *agreed >= count) continue;
        surplus.push_back({{r, s, token}, *agreed});
        if (kinds.at(token) == UnitKind::kKernel) same += count - *agreed;
      }
    }
    if (std::abs(same - more) <= kOtherwise * more) found.insert(surplus.begin(), surplus.end());
  }

  absl::flat_hash_map<uint64_t, UnitKind> KindsOf(uint32_t r) const {
    absl::flat_hash_map<uint64_t, UnitKind> kinds;
    for (uint32_t u = graph_.rank_begin[r]; u < graph_.rank_begin[r + 1]; ++u)
      kinds.try_emplace(tokens_[u], graph_.units[u].kind);
    return kinds;
  }

  const Graph& graph_;
  std::span<const uint64_t> tokens_;
  size_t steps_;
  uint32_t ranks_;
  std::vector<uint32_t> kernels_;  // by rank, step
};

}  // namespace

Surplus::Surplus(const Graph& graph, std::span<const uint64_t> tokens, size_t steps, const Layout* layout) {
  std::map<int32_t, std::vector<uint32_t>> stages;
  for (uint32_t r = 0; r + 1 < graph.rank_begin.size(); ++r) {
    stages[layout == nullptr || layout->stages < 2 ? -1 : layout->stage_of[r]].push_back(r);
  }
  const Finder finder(graph, tokens, steps);
  for (const auto& [stage, ranks] : stages) finder.LookAmong(ranks, usual_);
}

}  // namespace lockstep::analysis
