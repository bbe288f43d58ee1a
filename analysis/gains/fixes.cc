#include "analysis/gains/fixes.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/median.h"

namespace lockstep::analysis {
namespace {

// A longer list of fixes would not help the user.
constexpr size_t kMostChosen = 16;
constexpr size_t kAllOrders = 4;
constexpr int kDrawnOrders = 12;

std::vector<double> Difference(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> out(a.size());
  for (size_t k = 0; k < a.size(); ++k) out[k] = a[k] - b[k];
  return out;
}

// Gains of subsets of the fixes, each replayed once.
class Subsets {
 public:
  Subsets(Gains& gains, std::span<const Fix> fixes) : gains_(gains), fixes_(fixes) {}

  const std::vector<double>& Of(std::vector<uint32_t> entries) {
    std::sort(entries.begin(), entries.end());
    const auto known = known_.find(entries);
    if (known != known_.end()) return known->second;
    std::vector<double> gain(gains_.steps(), 0);
    if (!entries.empty()) gain = gains_.Of(Chosen(entries));
    return known_.emplace(std::move(entries), std::move(gain)).first->second;
  }

  // Replays several subsets at once, in parallel.
  void Prepare(std::vector<std::vector<uint32_t>> sets) {
    for (auto& s : sets) std::sort(s.begin(), s.end());
    std::sort(sets.begin(), sets.end());
    sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
    std::erase_if(sets, [&](const auto& s) { return s.empty() || known_.contains(s); });
    std::vector<Fix> fixes;
    for (const auto& s : sets) fixes.push_back(Chosen(s));
    std::vector<std::vector<double>> gained = gains_.OfEach(fixes);
    for (size_t i = 0; i < sets.size(); ++i) known_.emplace(std::move(sets[i]), std::move(gained[i]));
  }

 private:
  Fix Chosen(const std::vector<uint32_t>& entries) const {
    std::vector<Fix> chosen;
    for (uint32_t e : entries) chosen.push_back(fixes_[e]);
    return Together(chosen);
  }

  Gains& gains_;
  std::span<const Fix> fixes_;
  std::map<std::vector<uint32_t>, std::vector<double>> known_;
};

std::vector<uint32_t> With(std::vector<uint32_t> set, uint32_t entry) {
  set.push_back(entry);
  return set;
}

// Every order of a few entries; otherwise some drawn orders and their reverses.
std::vector<std::vector<uint32_t>> Orders(size_t count) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::vector<std::vector<uint32_t>> orders;
  if (count <= kAllOrders) {
    do {
      orders.push_back(order);
    } while (std::next_permutation(order.begin(), order.end()));
    return orders;
  }
  uint64_t state = 0x10C57EB5;
  for (int n = 0; n < kDrawnOrders / 2; ++n) {
    for (size_t i = count - 1; i > 0; --i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      std::swap(order[i], order[(state >> 33) % (i + 1)]);
    }
    orders.push_back(order);
    orders.emplace_back(order.rbegin(), order.rend());
  }
  return orders;
}

class Greedy {
 public:
  Greedy(Gains& gains, std::span<const Fix> fixes, double floor)
      : subsets_(gains, fixes), count_(fixes.size()), floor_(floor) {}

  std::vector<FixSet> Run() {
    for (uint32_t e = 0; e < count_; ++e) left_.push_back(e);
    while (!left_.empty() && chosen_.size() < kMostChosen && (AddBest() || AddBlock())) Keep(chosen_);
    for (uint32_t e = 0; e < count_; ++e) {
      if (Mean(subsets_.Of({e})) > floor_) Keep({e});
    }
    std::stable_sort(sets_.begin(), sets_.end(), [](const FixSet& a, const FixSet& b) {
      const double first = Mean(a.gain_per_step), second = Mean(b.gain_per_step);
      return first != second ? first > second : a.entries.size() < b.entries.size();
    });
    return std::move(sets_);
  }

 private:
  double GainOf(const std::vector<uint32_t>& set) { return Mean(subsets_.Of(set)); }

  bool AddBest() {
    std::vector<std::vector<uint32_t>> next;
    for (uint32_t e : left_) next.push_back(With(chosen_, e));
    subsets_.Prepare(next);
    const double now = GainOf(chosen_);
    uint32_t best = capture::kNone;
    double most = floor_;
    for (uint32_t e : left_) {
      const double more = GainOf(With(chosen_, e)) - now;
      if (more <= most) continue;
      most = more;
      best = e;
    }
    if (best == capture::kNone) return false;
    Choose({best});
    return true;
  }

  // If no fix gains alone, adds fixes in their order until they have a joint gain. Then removes those that
  // are not needed for it.
  bool AddBlock() {
    const double now = GainOf(chosen_);
    std::vector<uint32_t> block, set = chosen_;
    for (uint32_t e : left_) {
      set.push_back(e);
      block.push_back(e);
      if (GainOf(set) - now > floor_) break;
    }
    const double together = GainOf(set) - now;
    if (together <= floor_) return false;
    for (size_t i = 0; i < block.size() && block.size() > 1;) {
      std::vector<uint32_t> without = chosen_;
      for (size_t j = 0; j < block.size(); ++j) {
        if (j != i) without.push_back(block[j]);
      }
      if (together - (GainOf(without) - now) > floor_) {
        ++i;
      } else {
        block.erase(block.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    Choose(block);
    return true;
  }

  void Choose(const std::vector<uint32_t>& entries) {
    chosen_.insert(chosen_.end(), entries.begin(), entries.end());
    std::erase_if(left_,
                  [&](uint32_t e) { return std::find(entries.begin(), entries.end(), e) != entries.end(); });
  }

  void Keep(std::vector<uint32_t> set) {
    std::sort(set.begin(), set.end());
    const bool known =
        std::any_of(sets_.begin(), sets_.end(), [&](const FixSet& s) { return s.entries == set; });
    if (!known) sets_.push_back({set, subsets_.Of(set)});
  }

  Subsets subsets_;
  size_t count_;
  double floor_;
  std::vector<uint32_t> left_, chosen_;
  std::vector<FixSet> sets_;
};

}  // namespace

Fix Together(std::span<const Fix> fixes) {
  Fix all;
  for (const Fix& f : fixes) {
    all.rank_indices.insert(all.rank_indices.end(), f.rank_indices.begin(), f.rank_indices.end());
    all.owners.insert(all.owners.end(), f.owners.begin(), f.owners.end());
    all.pieces.insert(all.pieces.end(), f.pieces.begin(), f.pieces.end());
  }
  for (std::vector<uint32_t>* list : {&all.rank_indices, &all.owners}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  return all;
}

std::vector<std::vector<double>> MarginalGains(Gains& gains, std::span<const Fix> fixes) {
  Subsets subsets(gains, fixes);
  std::vector<uint32_t> all(fixes.size());
  std::iota(all.begin(), all.end(), 0u);
  std::vector<std::vector<uint32_t>> without(fixes.size(), all);
  for (uint32_t e = 0; e < fixes.size(); ++e) without[e].erase(without[e].begin() + e);
  std::vector<std::vector<uint32_t>> sets = without;
  sets.push_back(all);
  subsets.Prepare(sets);
  std::vector<std::vector<double>> gained;
  for (const auto& set : without) gained.push_back(Difference(subsets.Of(all), subsets.Of(set)));
  return gained;
}

std::vector<std::vector<double>> ShapleyValues(Gains& gains, std::span<const Fix> fixes) {
  Subsets subsets(gains, fixes);
  const std::vector<std::vector<uint32_t>> orders = Orders(fixes.size());
  std::vector<std::vector<uint32_t>> sets;
  for (const auto& order : orders) {
    for (size_t n = 1; n <= order.size(); ++n)
      sets.emplace_back(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n));
  }
  subsets.Prepare(std::move(sets));
  std::vector<std::vector<double>> shares(fixes.size(), std::vector<double>(gains.steps(), 0));
  for (const auto& order : orders) {
    std::vector<uint32_t> set;
    std::vector<double> before(gains.steps(), 0);
    for (uint32_t e : order) {
      set.push_back(e);
      const std::vector<double>& now = subsets.Of(set);
      for (size_t k = 0; k < now.size(); ++k)
        shares[e][k] += (now[k] - before[k]) / static_cast<double>(orders.size());
      before = now;
    }
  }
  return shares;
}

std::vector<FixSet> GreedyFixes(Gains& gains, std::span<const Fix> fixes, double floor) {
  return Greedy(gains, fixes, floor).Run();
}

}  // namespace lockstep::analysis
