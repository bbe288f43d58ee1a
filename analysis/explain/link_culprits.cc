#include "analysis/explain/link_culprits.h"

#include <algorithm>
#include <set>
#include <utility>

#include "analysis/prepare/stats.h"

namespace lockstep::analysis {
namespace {

using capture::kNone;

// The groups of a culprit are slow together for at least this share of their excess.
constexpr double kTogether = 0.75;
constexpr double kFixed = 0.8;
constexpr size_t kSeveral = 3;

class CulpritFinder {
 public:
  CulpritFinder(const GraphInput& input, const Graph& graph, const Classes& classes, const Excess& excess,
                std::span<const std::vector<uint32_t>> cells, std::span<const TransferComparison> compared)
      : in_(input),
        graph_(graph),
        classes_(classes),
        excess_(excess),
        cells_(cells),
        compared_(compared),
        steps_(input.steps.count()) {}

  std::vector<LinkCulprit> Run() {
    for (const TransferComparison& row : compared_) left_.push_back(row.slow);
    CoverByCulprits();
    if (changing_ >= kSeveral) {
      // Several links that are each slow only in some steps are congestion.
      congestion_ = true;
      found_.clear();
      for (size_t i = 0; i < left_.size(); ++i) left_[i] = compared_[i].slow;
      CoverByCulprits();
    }
    CoverRest();
    return std::move(found_);
  }

 private:
  uint32_t HostOf(uint32_t r) const { return in_.capture.ranks[r].host; }

  struct Suspect {
    LinkKind kind;
    std::vector<uint32_t> ranks, hosts;
    bool leaves_host = false;
    std::vector<uint32_t> rows;  // all of these must be slow together
  };

  std::vector<Suspect> Suspects() const {
    std::map<uint32_t, std::vector<uint32_t>> of_rank, of_rank_outside, of_host;
    std::map<uint32_t, std::set<uint32_t>> ranks_outside;
    for (uint32_t i = 0; i < compared_.size(); ++i) {
      for (uint32_t r : classes_.owners[compared_[i].owner].rank_indices) {
        of_rank[r].push_back(i);
        if (!compared_[i].between_hosts) continue;
        of_rank_outside[r].push_back(i);
        ranks_outside[HostOf(r)].insert(r);
        if (of_host[HostOf(r)].empty() || of_host[HostOf(r)].back() != i) of_host[HostOf(r)].push_back(i);
      }
    }
    std::vector<Suspect> suspects;
    for (const auto& [r, rows] : of_rank) {
      suspects.push_back({LinkKind::kRank, {r}, {}, false, rows});
      const auto outside = of_rank_outside.find(r);
      if (outside != of_rank_outside.end() && outside->second.size() < rows.size()) {
        suspects.push_back({LinkKind::kRank, {r}, {}, true, outside->second});
      }
    }
    for (const auto& [h, rows] : of_host) {
      if (ranks_outside[h].size() < 2 || rows.size() < 2) continue;
      suspects.push_back(
          {LinkKind::kHost, {ranks_outside[h].begin(), ranks_outside[h].end()}, {h}, true, rows});
    }
    return suspects;
  }

  // The steps in which all transfers of a suspect are slow, and their time beyond typical that is not
  // explained yet.
  struct Fit {
    double explained = 0;  // ns
    double together = 0;   // share of its rows' excess that these steps contain
    std::vector<uint8_t> steps;
  };

  Fit FitOf(const Suspect& suspect) const {
    Fit fit;
    fit.steps.assign(steps_, 0);
    double any = 0;
    for (size_t k = 0; k < steps_; ++k) {
      bool all = true;
      double excess = 0, fresh = 0;
      for (uint32_t i : suspect.rows) {
        const TransferComparison& row = compared_[i];
        all &= row.slow[k] != 0;
        if (row.slow[k] != 0) excess += std::max(0.0, row.excess_ns[k]);
        if (left_[i][k] != 0) fresh += std::max(0.0, row.excess_ns[k]);
      }
      any += excess;
      if (!all) continue;
      fit.steps[k] = 1;
      fit.together += excess;
      fit.explained += fresh;
    }
    fit.together = any > 0 ? fit.together / any : 0;
    return fit;
  }

  // Takes the suspects that explain most first. A suspect with a single group is left out, because the
  // group's other members explain it equally well.
  void CoverByCulprits() {
    const std::vector<Suspect> suspects = Suspects();
    while (true) {
      double most = 0;
      Fit best_fit;
      std::vector<const Suspect*> best;
      for (const Suspect& s : suspects) {
        if (s.rows.size() < 2) continue;
        Fit fit = FitOf(s);
        if (fit.together < kTogether || fit.explained <= 0) continue;
        if (congestion_ && !Fixed(fit.steps)) continue;
        const double explained = fit.explained;
        if (explained > most * (1 + 1e-9)) {
          most = explained;
          best_fit = std::move(fit);
          best.clear();
        }
        if (explained >= most * (1 - 1e-9) || best.empty()) best.push_back(&s);
      }
      if (best.empty()) return;
      changing_ += Fixed(best_fit.steps) ? 0 : 1;
      AddCulprit(best, best_fit.steps);
    }
  }

  bool Fixed(const std::vector<uint8_t>& steps) const {
    return static_cast<double>(std::count(steps.begin(), steps.end(), 1)) >=
           kFixed * static_cast<double>(steps_);
  }

  void AddCulprit(const std::vector<const Suspect*>& equals, const std::vector<uint8_t>& steps) {
    const Suspect& first = *equals.front();
    SlowLink link{.kind = first.kind,
                  .rank_indices = first.ranks,
                  .hosts = first.hosts,
                  .leaves_host = first.leaves_host};
    // Among equals, only suspects with the same groups cannot be distinguished.
    for (const Suspect* other : equals) {
      if (other == &first || other->rows != first.rows || other->kind != first.kind) continue;
      link.identified = false;
      for (uint32_t r : other->ranks) {
        if (std::find(link.rank_indices.begin(), link.rank_indices.end(), r) == link.rank_indices.end())
          link.rank_indices.push_back(r);
      }
      link.hosts.insert(link.hosts.end(), other->hosts.begin(), other->hosts.end());
    }
    Take(std::move(link), first.rows, steps);
  }

  // Marks the rows' slow steps as explained by the link.
  void Take(SlowLink link, const std::vector<uint32_t>& rows, const std::vector<uint8_t>& steps) {
    LinkCulprit culprit{.link = std::move(link), .steps_of_row = {}};
    for (uint32_t i : rows) {
      bool any = false;
      for (size_t k = 0; k < steps_; ++k) {
        if (steps[k] == 0 || left_[i][k] == 0) continue;
        left_[i][k] = 0;
        any = true;
        culprit.steps_of_row[i].push_back(static_cast<uint32_t>(k));
      }
      if (any) culprit.link.owners.push_back(compared_[i].owner);
    }
    found_.push_back(std::move(culprit));
  }

  // Explains the rest: single groups that are always slow, and groups that are slow in some steps.
  void CoverRest() {
    std::vector<uint32_t> fixed, changing;
    for (uint32_t i = 0; i < compared_.size(); ++i) {
      const auto left = static_cast<double>(std::count(left_[i].begin(), left_[i].end(), 1));
      if (left == 0) continue;
      (left >= kFixed * static_cast<double>(steps_) ? fixed : changing).push_back(i);
    }
    CoverByCommonMember(fixed);
    for (uint32_t i : fixed) AddGroup(i);
    // A single slow step is an incident, or a clock that was set.
    std::set<size_t> steps;
    for (uint32_t i : changing) {
      for (size_t k = 0; k < steps_; ++k) {
        if (left_[i][k] != 0) steps.insert(k);
      }
    }
    if (steps.size() < 2) return;
    // One group that is slow for a while has a slow path. Several groups at different times are congestion.
    if (changing.size() == 1) {
      AddGroup(changing[0]);
    } else if (changing.size() > 1) {
      SlowLink link{.kind = LinkKind::kCongestion};
      for (uint32_t i : changing) {
        for (uint32_t r : classes_.owners[compared_[i].owner].rank_indices) link.rank_indices.push_back(r);
      }
      std::sort(link.rank_indices.begin(), link.rank_indices.end());
      link.rank_indices.erase(std::unique(link.rank_indices.begin(), link.rank_indices.end()),
                              link.rank_indices.end());
      Take(std::move(link), changing, std::vector<uint8_t>(steps_, 1));
    }
  }

  // Groups that are always slow and share exactly one rank have that rank in common, although other transfers
  // of the rank are normal: they may take another path. Removes the groups that such a rank explains.
  void CoverByCommonMember(std::vector<uint32_t>& fixed) {
    while (true) {
      std::map<uint32_t, std::vector<uint32_t>> of_rank;
      for (uint32_t i : fixed) {
        for (uint32_t r : classes_.owners[compared_[i].owner].rank_indices) of_rank[r].push_back(i);
      }
      const std::vector<uint32_t>* best = nullptr;
      uint32_t culprit = kNone;
      double most = 0;
      for (const auto& [r, rows] : of_rank) {
        double explained = 0;
        for (uint32_t i : rows) explained += Median(compared_[i].excess_ns);
        if (!OnlyCommonMember(rows) || explained <= most) continue;
        most = explained;
        culprit = r;
        best = &rows;
      }
      if (best == nullptr) return;
      SlowLink link{.kind = LinkKind::kRank, .rank_indices = {culprit}, .is_certain = false};
      Take(std::move(link), *best, std::vector<uint8_t>(steps_, 1));
      std::erase_if(fixed,
                    [&](uint32_t i) { return std::find(best->begin(), best->end(), i) != best->end(); });
    }
  }

  // True if the rows have one rank in common, and not two.
  bool OnlyCommonMember(const std::vector<uint32_t>& rows) const {
    std::map<uint32_t, size_t> count;
    for (uint32_t i : rows) {
      for (uint32_t r : classes_.owners[compared_[i].owner].rank_indices) ++count[r];
    }
    return std::count_if(count.begin(), count.end(),
                         [&](const auto& one) { return one.second == rows.size(); }) == 1;
  }

  // Time of each member in such a group, relative to the reference.
  std::map<uint32_t, double> MemberRatios(uint32_t owner) const {
    std::map<uint32_t, std::pair<double, double>> sums;
    for (uint32_t c : cells_[owner]) {
      if (!excess_.has_reference(c)) continue;
      for (uint32_t u : classes_.UnitsOf(classes_.cells[c])) {
        auto& [own, reference] = sums[graph_.units[u].rank_index];
        own += graph_.work[u];
        reference += excess_.ReferenceWork(c);
      }
    }
    std::map<uint32_t, double> ratios;
    for (const auto& [r, sum] : sums) ratios[r] = sum.second > 0 ? sum.first / sum.second : 1;
    return ratios;
  }

  // A rank whose path out of its host is slow delays itself and the members on all other hosts. The members
  // on its own host take another path. kNone: the slow members are not those of one rank.
  uint32_t RankWithSlowPathOut(uint32_t owner) const {
    const std::map<uint32_t, double> ratios = MemberRatios(owner);
    double slowest = 1;
    for (const auto& [r, ratio] : ratios) slowest = std::max(slowest, ratio);
    const double limit = 1 + (slowest - 1) / 2;
    uint32_t found = kNone;
    for (const auto& candidate : ratios) {
      const uint32_t suspect = candidate.first;
      size_t normal = 0;
      const bool fits = std::all_of(ratios.begin(), ratios.end(), [&](const auto& member) {
        const bool expected = member.first == suspect || HostOf(member.first) != HostOf(suspect);
        normal += expected ? 0 : 1;
        return expected == (member.second > limit);
      });
      if (!fits || normal == 0) continue;
      if (found != kNone) return kNone;
      found = suspect;
    }
    return found;
  }

  void AddGroup(uint32_t i) {
    SlowLink link{.kind = LinkKind::kGroup};
    if (const uint32_t owner = compared_[i].owner; MembersDiffer(in_, graph_, classes_, cells_[owner])) {
      if (const uint32_t culprit = RankWithSlowPathOut(owner); culprit != kNone) {
        link = {.kind = LinkKind::kRank, .rank_indices = {culprit}, .leaves_host = true};
        return Take(std::move(link), {i}, std::vector<uint8_t>(steps_, 1));
      }
    }
    // A member with another group that is not always slow is cleared. The others are suspects.
    std::vector<uint32_t> suspects;
    for (uint32_t r : classes_.owners[compared_[i].owner].rank_indices) {
      const std::vector<uint32_t>& rows = RowsOfRank(r);
      const bool cleared = std::any_of(rows.begin(), rows.end(), [&](uint32_t other) {
        return other != i && compared_[other].slow_steps < kFixed;
      });
      if (!cleared) suspects.push_back(r);
    }
    const auto& members = classes_.owners[compared_[i].owner].rank_indices;
    if (suspects.empty() || suspects.size() == members.size()) {
      // If all members are cleared, or none is, the culprit is the path that they share. If none is cleared,
      // it may also be one of the members.
      link.rank_indices = members;
      link.is_certain = suspects.empty();
    } else {
      link.kind = LinkKind::kRank;
      link.rank_indices = suspects;
      link.identified = suspects.size() == 1;
    }
    Take(std::move(link), {i}, std::vector<uint8_t>(steps_, 1));
  }

  const std::vector<uint32_t>& RowsOfRank(uint32_t r) {
    if (rows_of_rank_.empty()) {
      rows_of_rank_.resize(in_.capture.ranks.size());
      for (uint32_t i = 0; i < compared_.size(); ++i) {
        for (uint32_t member : classes_.owners[compared_[i].owner].rank_indices)
          rows_of_rank_[member].push_back(i);
      }
    }
    return rows_of_rank_[r];
  }

  const GraphInput& in_;
  const Graph& graph_;
  const Classes& classes_;
  const Excess& excess_;
  std::span<const std::vector<uint32_t>> cells_;
  std::span<const TransferComparison> compared_;
  size_t steps_;
  std::vector<std::vector<uint32_t>> rows_of_rank_;  // built on first use
  std::vector<std::vector<uint8_t>> left_;           // by row and step: slow and not yet explained
  size_t changing_ = 0;                              // number of culprits that are not slow throughout
  bool congestion_ = false;  // congestion was found, so only culprits that are slow throughout count
  std::vector<LinkCulprit> found_;
};

}  // namespace

bool MembersDiffer(const GraphInput& input, const Graph& graph, const Classes& classes,
                   std::span<const uint32_t> cells) {
  if (cells.empty()) return false;
  const uint32_t unit = classes.UnitsOf(classes.cells[cells.front()]).front();
  return input.matches.instances[graph.units[unit].instance].op == capture::CollectiveOp::kAllToAllV;
}

std::vector<LinkCulprit> FindLinkCulprits(const GraphInput& input, const Graph& graph, const Classes& classes,
                                          const Excess& excess, std::span<const std::vector<uint32_t>> cells,
                                          std::span<const TransferComparison> compared) {
  return CulpritFinder(input, graph, classes, excess, cells, compared).Run();
}

}  // namespace lockstep::analysis
