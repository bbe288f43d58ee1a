#include "analysis/compare/extra_work.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace lockstep::analysis {
namespace {

// With fewer ranks, the one that differs cannot be identified.
constexpr size_t kLeastRanks = 3;
// A rank may run fewer of some kernels, up to this share of its additional ones.
constexpr double kOtherwise = 0.1;
// Of many peers, this many are sampled.
constexpr size_t kMostAsked = 32;

// The value that two thirds of them share.
std::optional<uint32_t> Usual(std::vector<uint32_t>& values) {
  if (values.size() < kLeastRanks) return std::nullopt;
  std::sort(values.begin(), values.end());
  // A value that two thirds share is also the middle one.
  const uint32_t middle = values[values.size() / 2];
  const auto [first, last] = std::equal_range(values.begin(), values.end(), middle);
  return 3 * (last - first) >= 2 * static_cast<ptrdiff_t>(values.size()) ? std::optional(middle)
                                                                         : std::nullopt;
}

class Finder {
 public:
  using Key = std::tuple<uint32_t, uint32_t, uint64_t>;  // rank index, step, signature
  using Found = absl::flat_hash_map<Key, uint32_t>;

  Finder(const Graph& graph, std::span<const uint64_t> signatures, size_t steps)
      : graph_(graph),
        signatures_(signatures),
        steps_(steps),
        ranks_(static_cast<uint32_t>(graph.rank_begin.empty() ? 0 : graph.rank_begin.size() - 1)),
        kernels_(ranks_ * steps, 0) {
    for (const Unit& unit : graph.units) {
      if (unit.kind == UnitKind::kKernel && unit.step >= 0)
        ++kernels_[At(unit.rank_index, static_cast<size_t>(unit.step))];
    }
  }

  void CompareWith(std::span<const uint32_t> peers, Found& found) const {
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
    for (size_t i = 0; i < ordinary.size(); i += stride) others.push_back(CountSignatures(ordinary[i]));
    for (const auto& [rank, more] : busier) Compare(rank, more, others, usual, found);
  }

 private:
  using Counts = absl::flat_hash_map<uint64_t, uint32_t>;

  size_t At(uint32_t rank, size_t step) const { return rank * steps_ + step; }

  // By step: the usual number of kernels.
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

  // Kernels beyond the usual number, summed over steps; 0 if the rank also runs clearly fewer in some steps.
  double MoreThanUsual(uint32_t r, const std::vector<std::optional<uint32_t>>& usual) const {
    double more = 0, fewer = 0;
    for (size_t s = 0; s < steps_; ++s) {
      if (!usual[s]) continue;
      const double difference = static_cast<double>(kernels_[At(r, s)]) - *usual[s];
      (difference > 0 ? more : fewer) += std::abs(difference);
    }
    return fewer <= kOtherwise * more ? more : 0;
  }

  // By step: the count of each signature. Transfers are left out, because no rank makes them alone.
  std::vector<Counts> CountSignatures(uint32_t r) const {
    std::vector<Counts> counts(steps_);
    for (uint32_t u = graph_.rank_begin[r]; u < graph_.rank_begin[r + 1]; ++u) {
      const Unit& unit = graph_.units[u];
      if (unit.kind != UnitKind::kTransfer && unit.step >= 0)
        ++counts[static_cast<size_t>(unit.step)][signatures_[u]];
    }
    return counts;
  }

  void Compare(uint32_t r, double more, const std::vector<std::vector<Counts>>& others,
               const std::vector<std::optional<uint32_t>>& usual, Found& found) const {
    const std::vector<Counts> own = CountSignatures(r);
    const absl::flat_hash_map<uint64_t, UnitKind> kinds = KindsOf(r);
    std::vector<std::pair<Key, uint32_t>> extra_work;
    std::vector<uint32_t> numbers;
    double same = 0;
    for (uint32_t s = 0; s < steps_; ++s) {
      if (!usual[s] || kernels_[At(r, s)] <= *usual[s]) continue;
      for (const auto& [signature, count] : own[s]) {
        numbers.clear();
        for (const std::vector<Counts>& other : others) {
          const auto has = other[s].find(signature);
          numbers.push_back(has == other[s].end() ? 0 : has->second);
        }
        const std::optional<uint32_t> agreed = Usual(numbers);
        // A kernel that no other rank runs may be this rank's replacement for kernels of the others.
        if (!agreed || *agreed == 0 || *agreed >= count) continue;
        extra_work.push_back({{r, s, signature}, *agreed});
        if (kinds.at(signature) == UnitKind::kKernel) same += count - *agreed;
      }
    }
    if (std::abs(same - more) <= kOtherwise * more) found.insert(extra_work.begin(), extra_work.end());
  }

  absl::flat_hash_map<uint64_t, UnitKind> KindsOf(uint32_t r) const {
    absl::flat_hash_map<uint64_t, UnitKind> kinds;
    for (uint32_t u = graph_.rank_begin[r]; u < graph_.rank_begin[r + 1]; ++u)
      kinds.try_emplace(signatures_[u], graph_.units[u].kind);
    return kinds;
  }

  const Graph& graph_;
  std::span<const uint64_t> signatures_;
  size_t steps_;
  uint32_t ranks_;
  std::vector<uint32_t> kernels_;  // by rank, step
};

}  // namespace

ExtraWork::ExtraWork(const Graph& graph, std::span<const uint64_t> signatures, size_t steps,
                     const Layout* layout) {
  std::map<int32_t, std::vector<uint32_t>> stages;
  for (uint32_t r = 0; r + 1 < graph.rank_begin.size(); ++r) {
    stages[layout == nullptr || layout->stages < 2 ? -1 : layout->stage_of[r]].push_back(r);
  }
  const Finder finder(graph, signatures, steps);
  for (const auto& [stage, ranks] : stages) finder.CompareWith(ranks, usual_);
}

}  // namespace lockstep::analysis
